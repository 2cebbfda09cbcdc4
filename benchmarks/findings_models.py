"""The architectures on which `findings.py` tries every change: built from torch.nn or transformers, random weights.

Each is a function without arguments, `name`, with a function `name_inputs` for its inputs. With SCALE=device in the
environment, sizes are those for an accelerator, otherwise they are small enough for a CPU. BATCH sets the batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from device_models import Decoder, convolutional
from energy_nets import DenseNet, UNet
from torch import nn
from torch.nn import functional as F
from zoo_models.vision import ConvNextBlock, Inverted

BATCH = int(os.environ.get("BATCH", "1"))
LARGE = os.environ.get("SCALE") == "device"

Builder = Callable[[], Any]
MODELS: dict[str, tuple[Builder, Builder]] = {}
"""Name → function that builds the model, function that makes its inputs."""


def _size(large: int, small: int) -> int:
    return large if LARGE else small


def _images() -> torch.Tensor:
    side = _size(224, 160)
    return torch.randn(BATCH, 3, side, side, generator=torch.Generator().manual_seed(1))


def _tokens(words: int = 50257) -> torch.Tensor:
    return torch.randint(0, words, (BATCH, _size(512, 128)), generator=torch.Generator().manual_seed(1))


def _model(inputs: Builder) -> Callable[[Builder], Builder]:
    """Register a builder; the weights are seeded, and BatchNorm layers have plausible running statistics."""

    def decorate(build: Builder) -> Builder:
        def seeded() -> nn.Module:
            torch.manual_seed(0)
            model = build().eval()
            for module in model.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    assert module.running_mean is not None
                    assert module.running_var is not None
                    module.running_mean.normal_(0, 0.1)
                    module.running_var.uniform_(0.5, 1.5)
            return model

        MODELS[build.__name__] = seeded, inputs
        globals()[f"{build.__name__}_inputs"] = inputs
        return seeded

    return decorate


@_model(_images)
def resnet50() -> nn.Module:
    """Bottlenecks with BatchNorm."""
    return convolutional()


@_model(_images)
def mobilenet() -> nn.Module:
    """Inverted residuals with depthwise convolutions."""
    layers: list[nn.Module] = [nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU6()]
    for width, following in ((24, 48), (48, 96), (96, 192)):
        layers += [Inverted(width), Inverted(width), nn.Conv2d(width, following, 3, 2, 1), nn.BatchNorm2d(following)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 1000))


@_model(_images)
def convnext() -> nn.Module:
    """Large depthwise kernels and LayerNorm over channels."""
    blocks = [ConvNextBlock(96) for _ in range(6)]
    return nn.Sequential(nn.Conv2d(3, 96, 4, 4), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 1000))


@_model(_images)
def densenet() -> nn.Module:
    """Concatenation after every layer."""
    return DenseNet(_size(32, 16))


@_model(lambda: (torch.randn(BATCH, 4, _size(64, 32), _size(64, 32)),))
def unet() -> nn.Module:
    """Residual blocks with attention and skip connections."""
    return UNet(_size(128, 32))


class ManualAttention(nn.Module):
    """Attention as two products around a softmax."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.join = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The values, weighted by similarity."""
        batch, length, width = x.shape
        shape = batch, length, self.heads, width // self.heads
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5, dim=-1)
        return self.join((weights @ v).transpose(1, 2).reshape(batch, length, width))


class VisionBlock(nn.Module):
    """Manual attention and a feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.attention, self.second = (
            nn.LayerNorm(width),
            ManualAttention(width, heads),
            nn.LayerNorm(width),
        )
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The residual stream with both added."""
        x = x + self.attention(self.first(x))
        return x + self.narrow(F.gelu(self.widen(self.second(x))))


class VisionTransformer(nn.Module):
    """Patches, blocks and a head; ViT-B/16 on an accelerator."""

    def __init__(self) -> None:
        super().__init__()
        width, depth = _size(768, 384), _size(12, 6)
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.places = nn.Parameter(torch.zeros(1, (_size(224, 160) // 16) ** 2, width))
        self.blocks = nn.Sequential(*(VisionBlock(width, width // 64) for _ in range(depth)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        return self.head(self.last(self.blocks(x)).mean(1))


@_model(_images)
def vit() -> nn.Module:
    """A vision transformer with manual attention and separate projections."""
    return VisionTransformer()


@_model(_tokens)
def decoder() -> nn.Module:
    """A GPT-2-size decoder with SDPA and a tied head of 50,257 words."""
    return Decoder() if LARGE else Decoder(384, 6, 4)


def _from_config(model: str, config: str, **settings: Any) -> nn.Module:
    import transformers

    built: nn.Module = getattr(transformers, model)(getattr(transformers, config)(**settings))
    return built


@_model(_tokens)
def gpt2_eager() -> nn.Module:
    """GPT-2 of transformers with eager attention."""
    depth, width = _size(12, 4), _size(768, 384)
    settings = {"n_layer": depth, "n_embd": width, "n_head": width // 64, "use_cache": False}
    return _from_config("GPT2LMHeadModel", "GPT2Config", **settings, attn_implementation="eager")


@_model(lambda: _tokens(30522))
def bert() -> nn.Module:
    """BERT of transformers."""
    depth, width = _size(12, 4), _size(768, 384)
    sizes = {"num_hidden_layers": depth, "hidden_size": width, "num_attention_heads": width // 64}
    return _from_config("BertModel", "BertConfig", **sizes, intermediate_size=4 * width)


@_model(lambda: _tokens(32128))
def t5_encoder() -> nn.Module:
    """The encoder of T5, with a learned bias of positions."""
    depth, width = _size(12, 4), _size(768, 384)
    sizes = {"num_layers": depth, "d_model": width, "num_heads": width // 64, "d_ff": 4 * width}
    return _from_config("T5EncoderModel", "T5Config", **sizes)


@_model(lambda: (torch.randn(BATCH, _size(512, 128), _size(768, 256)),))
def encoder() -> nn.Module:
    """nn.TransformerEncoder."""
    width = _size(768, 256)
    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True)
    return nn.TransformerEncoder(layer, _size(12, 4), enable_nested_tensor=False)


class Classifier(nn.Module):
    """A recurrent network and a head."""

    def __init__(self) -> None:
        super().__init__()
        width = _size(1024, 256)
        self.layers, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores from the last step."""
        return self.head(self.layers(x)[0][:, -1])


@_model(lambda: (torch.randn(BATCH, _size(256, 64), _size(1024, 256)),))
def lstm() -> nn.Module:
    """A two-layer LSTM."""
    return Classifier()


@_model(lambda: (torch.randn(BATCH, 64),))
def deep_mlp() -> nn.Module:
    """A hundred narrow layers: mostly overhead."""
    return nn.Sequential(*(layer for _ in range(100) for layer in (nn.Linear(64, 64), nn.ReLU())))


class Synchronising(nn.Module):
    """Asks for a value in every block, as gating by a threshold does."""

    def __init__(self) -> None:
        super().__init__()
        width = _size(1024, 256)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The blocks, scaled down where the mean is large."""
        for block in self.blocks:
            y = torch.sigmoid(block(x))
            x = y / 2 if y.mean().item() > 0.9 else y
        return x


@_model(lambda: (torch.randn(BATCH, _size(256, 32), _size(1024, 256)),))
def synchronising() -> nn.Module:
    """A network that reads a value on the host in every block."""
    return Synchronising()
