"""Classic vision networks in a few lines each, at their real depth and small images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


def _images(side: int = 32, channels: int = 3) -> Inputs:
    return (torch.randn(1, channels, side, side, generator=torch.Generator().manual_seed(0)),)


def _conv(inside: int, outside: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outside), nn.ReLU(inplace=True))


class Bottleneck(nn.Module):
    def __init__(self, inside: int, width: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(inside, width, 1), _conv(width, width, 3, stride, groups), nn.Conv2d(width, 4 * width, 1)
        )
        same = stride == 1 and inside == 4 * width
        self.skip: nn.Module = nn.Identity() if same else nn.Conv2d(inside, 4 * width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.skip(x))


def _resnet(depths: tuple[int, ...], width: int, groups: int = 1) -> nn.Module:
    layers: list[nn.Module] = [_conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inside = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            wide = width * 2**stage
            layers.append(Bottleneck(inside, wide, 2 if block == 0 and stage else 1, groups))
            inside = 4 * wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000)).eval()


@shelf("vision")
def resnet50() -> tuple[nn.Module, Inputs]:
    return _resnet((3, 4, 6, 3), 64), _images(64)


@shelf("vision")
def resnext() -> tuple[nn.Module, Inputs]:
    return _resnet((2, 2, 2, 2), 32, groups=8), _images()


@shelf("vision")
def wide_resnet_training() -> tuple[nn.Module, Inputs]:
    return _resnet((1, 1, 1), 32).train(), (torch.randn(2, 3, 32, 32),)


@shelf("vision")
def lenet() -> tuple[nn.Module, Inputs]:
    features = (nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2))
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(400, 84), nn.Linear(84, 10)), _images(32, 1)


@shelf("vision")
def alexnet() -> tuple[nn.Module, Inputs]:
    features = (nn.Conv2d(3, 32, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2), nn.Conv2d(32, 64, 5, padding=2))
    head = (nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Dropout(), nn.Linear(64 * 36, 256), nn.Linear(256, 10))
    return nn.Sequential(*features, *head).eval(), _images(96)


@shelf("vision")
def vgg16() -> tuple[nn.Module, Inputs]:
    layers: list[nn.Module] = []
    inside = 3
    for width, repeats in ((16, 2), (32, 2), (64, 3), (64, 3), (64, 3)):
        for _ in range(repeats):
            layers += [nn.Conv2d(inside, width, 3, padding=1), nn.ReLU(inplace=True)]
            inside = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), _images()


class Inverted(nn.Module):
    def __init__(self, width: int, expand: int = 4) -> None:
        super().__init__()
        wide = width * expand
        self.body = nn.Sequential(_conv(width, wide, 1), _conv(wide, wide, 3, groups=wide), nn.Conv2d(wide, width, 1))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width, 1), nn.Hardsigmoid())

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y * self.gate(y)


@shelf("vision")
def mobilenet() -> tuple[nn.Module, Inputs]:
    body = (_conv(3, 16, 3, 2), Inverted(16), Inverted(16), _conv(16, 32, 3, 2), Inverted(32))
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).eval(), _images()


class Dense(nn.Module):
    def __init__(self, width: int, growth: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_conv(width + i * growth, growth) for i in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


@shelf("vision")
def densenet() -> tuple[nn.Module, Inputs]:
    body = (_conv(3, 16), Dense(16, 8, 4), _conv(48, 24, 1), nn.AvgPool2d(2), Dense(24, 8, 4))
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(56, 10)).eval(), _images()


class Inception(nn.Module):
    def __init__(self, inside: int) -> None:
        super().__init__()
        pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), _conv(inside, 8, 1))
        self.branches = nn.ModuleList([_conv(inside, 8, 1), _conv(inside, 8, 3), _conv(inside, 8, 5), pooled])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


@shelf("vision")
def inception() -> tuple[nn.Module, Inputs]:
    body = (_conv(3, 16, 3, 2), Inception(16), Inception(32), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*body, nn.Linear(32, 10)).eval(), _images()


class Fire(nn.Module):
    def __init__(self, inside: int, squeeze: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inside, squeeze, 1)
        self.one, self.three = nn.Conv2d(squeeze, 16, 1), nn.Conv2d(squeeze, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.squeeze(x))
        return torch.cat([functional.relu(self.one(x)), functional.relu(self.three(x))], 1)


@shelf("vision")
def squeezenet() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), Fire(16, 4), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(32, 8)
    ), _images()


class Shuffle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        return x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


@shelf("vision")
def shufflenet() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(_conv(3, 16), _conv(16, 16, 1, groups=2), Shuffle(), _conv(16, 16, 3, groups=16)), _images()


class ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        y = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + (self.scale * y).permute(0, 3, 1, 2)


@shelf("vision")
def convnext() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Conv2d(3, 16, 4, 4), *(ConvNextBlock(16) for _ in range(3))), _images()


class VisionTransformer(nn.Module):
    def __init__(self, width: int = 32, side: int = 32, patch: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


@shelf("vision")
def vit() -> tuple[nn.Module, Inputs]:
    return VisionTransformer().eval(), _images()


class Mixer(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.tokens = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


class Tokens(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).transpose(1, 2)


@shelf("vision")
def mlp_mixer() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Conv2d(3, 32, 8, 8), Tokens(), Mixer(16, 32), Mixer(16, 32)), _images()


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 6))

    def forward(self, x: Tensor) -> Tensor:
        grid = functional.affine_grid(self.place(x).view(-1, 2, 3), list(x.shape), align_corners=False)
        return functional.grid_sample(x, grid, align_corners=False)


@shelf("vision")
def spatial_transformer() -> tuple[nn.Module, Inputs]:
    return SpatialTransformer(), _images()


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(_conv(3, 8, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 8))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return functional.cosine_similarity(self.tower(left), self.tower(right))


@shelf("vision")
def siamese() -> tuple[nn.Module, Inputs]:
    return Siamese().eval(), (*_images(), *_images())


@shelf("vision")
def channels_last_resnet() -> tuple[nn.Module, Inputs]:
    model = _resnet((1, 1), 16).to(memory_format=torch.channels_last)
    return model, (torch.randn(1, 3, 32, 32).to(memory_format=torch.channels_last),)


@shelf("vision")
def half_precision_cnn() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).bfloat16(), (torch.randn(1, 3, 16, 16).bfloat16(),)
