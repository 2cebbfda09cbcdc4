"""Small models of many kinds, each with inputs, for tests of changes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from assay.trials.change import named
from assay.trials.runnable import Runnable


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + x)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.pool = (
            nn.Conv2d(3, 16, 7, 2, 3, bias=False),
            nn.BatchNorm2d(16),
            nn.MaxPool2d(3, 2, 1),
        )
        self.blocks = nn.Sequential(Residual(16), Residual(16))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.blocks(self.pool(F.relu(self.bn(self.conv(x)))))
        return self.fc(x.mean((2, 3)))


class InvertedResidual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.body = nn.Sequential(
            *(nn.Conv2d(8, 48, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU6()),
            *(nn.Conv2d(48, 48, 3, padding=1, groups=48, bias=False), nn.BatchNorm2d(48), nn.ReLU6()),
            *(nn.Conv2d(48, 8, 1, bias=False), nn.BatchNorm2d(8)),
        )

    def forward(self, x):
        x = self.stem(x)
        return x + self.body(x)


class ManualAttention(nn.Module):
    """Attention of single ops; `how` names one of the ways people write it."""

    def __init__(self, width: int, heads: int, how: str = "matmul", causal: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.out, self.drop = nn.Linear(width, width), nn.Dropout(0.1)
        self.heads, self.how, self.causal = heads, how, causal

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, c // self.heads) for f in (self.q, self.k, self.v))
        return self.out(getattr(self, self.how)(q, k, v).reshape(b, t, c))

    def mask(self, scores):
        if not self.causal:
            return scores
        length = scores.shape[-1]
        seen = torch.tril(torch.ones(length, length, dtype=torch.bool, device=scores.device))
        return scores.masked_fill(~seen, float("-inf"))

    def matmul(self, q, k, v):
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        weights = F.softmax(self.mask(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5), dim=-1)
        return (self.drop(weights) @ v).transpose(1, 2)

    def bmm(self, q, k, v):
        b, t, h, d = q.shape
        q, k, v = (each.transpose(1, 2).reshape(b * h, t, d) for each in (q, k, v))
        scores = self.mask(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d))
        return torch.bmm(scores.softmax(-1), v).view(b, h, t, d).transpose(1, 2)

    def einsum(self, q, k, v):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        return torch.einsum("bhqk,bkhd->bqhd", torch.softmax(self.mask(scores), -1), v)

    def inplace(self, q, k, v):
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        scores = torch.matmul(q, k.mT)
        scores *= q.shape[-1] ** -0.5
        scores += torch.linspace(-1, 1, scores.shape[-1], device=scores.device)
        if self.causal:
            scores.masked_fill_(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril(), -1e9)
        return (scores.softmax(dim=-1) @ v).transpose(1, 2)

    def kept(self, q, k, v):
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        self.weights = (q @ k.mT).softmax(-1)
        return (self.weights @ v).transpose(1, 2)

    def read(self, q, k, v):
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        weights = (q @ k.mT).softmax(-1)
        return ((weights @ v) * weights.amax(-1, keepdim=True)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, **attention: Any) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = ManualAttention(width, heads, **attention)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.blocks = nn.ModuleList(Block(32, 4, 100) for _ in range(2))
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


class Decoder(nn.Module):
    """Like nanoGPT, with a table that is tied to the output projection."""

    def __init__(self, how: str = "matmul") -> None:
        super().__init__()
        self.table, self.positions = nn.Embedding(101, 32), nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(Block(32, 4, 128, how=how, causal=True) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 101, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        x = self.table(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.rnn = nn.Embedding(50, 16), nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 7)

    def forward(self, tokens):
        return self.head(self.rnn(self.table(tokens))[0])


def double_conv(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()),
        *(nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()),
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.pool = double_conv(3, 8), double_conv(8, 16), nn.MaxPool2d(2)
        self.up, self.norm = nn.ConvTranspose2d(16, 8, 2, 2), nn.BatchNorm2d(8)
        self.last, self.head = double_conv(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        first = self.down1(x)
        up = self.norm(self.up(self.down2(self.pool(first))))
        return self.head(self.last(torch.cat([first, up], 1)))


class Attends(nn.Module):
    """nn.MultiheadAttention, whose weights are ignored, kept or returned."""

    def __init__(self, weights: str = "ignored") -> None:
        super().__init__()
        self.attention, self.weights = nn.MultiheadAttention(32, 4, batch_first=True), weights

    def forward(self, x):
        out, weights = self.attention(x, x, x)
        if self.weights == "kept":
            self.last = weights
        return (out, weights) if self.weights == "returned" else out


def transformers_model(kind: str, attention: str = "eager") -> nn.Module:
    import transformers

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 101, "n_positions": 64}
    if kind == "bert":
        names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "max_position_embeddings")
        sizes = dict(zip(names, sizes.values(), strict=True)) | {"intermediate_size": 64}
    config = (transformers.BertConfig if kind == "bert" else transformers.GPT2Config)(**sizes)
    config._attn_implementation = attention
    return (transformers.BertModel if kind == "bert" else transformers.GPT2LMHeadModel)(config)


def image() -> tuple[Any, ...]:
    return (torch.randn(2, 3, 32, 32),)


def tokens() -> tuple[Any, ...]:
    return (torch.randint(0, 50, (2, 12)),)


def sequence() -> tuple[Any, ...]:
    return (torch.randn(2, 12, 32),)


NETS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]]]] = {
    "resnet": (ResNet, image),
    "inverted": (InvertedResidual, image),
    "vit": (ViT, image),
    "decoder": (Decoder, tokens),
    "lstm": (Tagger, tokens),
    "unet": (UNet, image),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 100, batch_first=True), 2),
        sequence,
    ),
    "attends": (Attends, sequence),
    "gpt2": (lambda: transformers_model("gpt2"), tokens),
    "bert": (lambda: transformers_model("bert"), tokens),
}


def settled(model: nn.Module) -> nn.Module:
    """The model in eval mode with BatchNorm statistics and affine weights that do something."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.weight, 0.5, 2.0)
            nn.init.normal_(module.bias)
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return model.eval()


def net(name: str, device: str = "cpu") -> Runnable:
    torch.manual_seed(0)
    make, inputs = NETS[name]
    return Runnable(settled(make()).to(device), tuple(each.to(device) for each in inputs()))


def runnable(model: nn.Module, *args: Any, **kwargs: Any) -> Runnable:
    return Runnable(settled(model), args, kwargs)


def changed(base: Runnable, *names: str, **values: Any) -> Runnable:
    """A copy of `base` with changes applied, as a trial applies them."""
    result = Runnable(copy.deepcopy(base.model), base.args, dict(base.kwargs), base.contexts)
    for name in names:
        result = named(name).apply(result, **values)
    return result


def outputs(subject: Runnable) -> list[torch.Tensor]:
    with torch.no_grad():
        return tensors(subject())


def worst(base: Runnable, other: Runnable) -> float:
    """The largest difference of the outputs, relative to the largest value of the original; independent of `src`."""
    with torch.no_grad():
        pair = (base(), other())
    before, after = (tensors(each) for each in (other.compare(*pair) if other.compare else pair))
    assert [each.shape for each in before] == [each.shape for each in after]
    errors = [
        (a.double() - b.double()).abs().max() / a.double().abs().max() for a, b in zip(before, after, strict=True)
    ]
    return float(max(errors))


def tensors(value: Any) -> list[torch.Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]
