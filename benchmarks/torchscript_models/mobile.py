"""Convolutional networks built of depthwise convolutions and gates."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.images import images
from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


class ConvNormActivation(nn.Sequential):
    def __init__(
        self, inside: int, outside: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type = nn.ReLU6
    ) -> None:
        conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outside), act())


class InvertedResidual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = inside * expand
        self.use_res_connect = stride == 1 and inside == outside
        layers: list[nn.Module] = [ConvNormActivation(inside, wide, 1)] if expand != 1 else []
        layers += [
            ConvNormActivation(wide, wide, 3, stride, wide),
            nn.Conv2d(wide, outside, 1),
            nn.BatchNorm2d(outside),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        if self.use_res_connect:
            return x + self.conv(x)
        return self.conv(x)


def _classifier(features: nn.Sequential, width: int) -> nn.Module:
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(width, 100))


@shelf("vision", *BOTH)
def mobilenet_v2() -> tuple[nn.Module, Inputs]:
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    layers: list[nn.Module] = [ConvNormActivation(3, 32, 3, 2)]
    inside = 32
    for expand, width, depth, stride in rows:
        for index in range(depth):
            layers.append(InvertedResidual(inside, width, stride if index == 0 else 1, expand))
            inside = width
    layers.append(ConvNormActivation(inside, 1280, 1))
    return _classifier(nn.Sequential(*layers), 1280), images(64)


class SqueezeExcitation(nn.Module):
    def __init__(self, width: int, squeeze: int, activation: nn.Module, scale: nn.Module) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(width, squeeze, 1)
        self.fc2 = nn.Conv2d(squeeze, width, 1)
        self.activation = activation
        self.scale_activation = scale

    def _scale(self, x: Tensor) -> Tensor:
        scale = self.fc2(self.activation(self.fc1(self.avgpool(x))))
        return self.scale_activation(scale)

    def forward(self, x: Tensor) -> Tensor:
        return self._scale(x) * x


class GatedResidual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int, act: type, kernel: int = 3) -> None:
        super().__init__()
        wide = 4 * inside
        gate = nn.Hardsigmoid() if act is nn.Hardswish else nn.Sigmoid()
        self.block = nn.Sequential(
            ConvNormActivation(inside, wide, 1, act=act),
            ConvNormActivation(wide, wide, kernel, stride, wide, act),
            SqueezeExcitation(wide, max(wide // 4, 8), nn.ReLU() if act is nn.Hardswish else nn.SiLU(), gate),
            nn.Conv2d(wide, outside, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.skip = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        result = self.block(x)
        if self.skip:
            result += x
        return result


@shelf("vision", *BOTH)
def mobilenet_v3() -> tuple[nn.Module, Inputs]:
    layers: list[nn.Module] = [ConvNormActivation(3, 16, 3, 2, act=nn.Hardswish)]
    for inside, outside, stride, kernel in (
        (16, 16, 1, 3),
        (16, 24, 2, 3),
        (24, 24, 1, 5),
        (24, 40, 2, 5),
        (40, 40, 1, 5),
    ):
        layers.append(GatedResidual(inside, outside, stride, nn.Hardswish, kernel))
    return _classifier(nn.Sequential(*layers), 40), images(64)


class StochasticDepth(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        size = [x.shape[0]] + [1] * (x.ndim - 1)
        noise = torch.empty(size, dtype=x.dtype, device=x.device).bernoulli_(1.0 - self.p)
        return x * noise.div_(1.0 - self.p)


class MBConv(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int, drop: float) -> None:
        super().__init__()
        self.block = GatedResidual(inside, outside, stride, nn.SiLU)
        self.stochastic_depth = StochasticDepth(drop)
        self.same = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        result = self.block(x)
        return self.stochastic_depth(result) + x if self.same else result


@shelf("vision", *BOTH)
def efficientnet() -> tuple[nn.Module, Inputs]:
    layers: list[nn.Module] = [ConvNormActivation(3, 16, 3, 2, act=nn.SiLU)]
    for index, (inside, outside, stride) in enumerate(
        ((16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 48, 2), (48, 48, 1))
    ):
        layers.append(MBConv(inside, outside, stride, 0.05 * index))
    return _classifier(nn.Sequential(*layers), 48), images(64)


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batch, channels, height, width)


class ShuffleUnit(nn.Module):
    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        half = width // 2
        inside = width if stride > 1 else half
        self.branch1 = nn.Sequential(nn.Conv2d(width, half, 3, stride, 1)) if stride > 1 else nn.Sequential()
        self.branch2 = nn.Sequential(
            nn.Conv2d(inside, half, 1),
            nn.ReLU(),
            nn.Conv2d(half, half, 3, stride, 1, groups=half),
            nn.Conv2d(half, half, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            x1, x2 = x.chunk(2, dim=1)
            out = torch.cat((x1, self.branch2(x2)), dim=1)
        else:
            out = torch.cat((self.branch1(x), self.branch2(x)), dim=1)
        return channel_shuffle(out, 2)


@shelf("vision", *BOTH)
def shufflenet() -> tuple[nn.Module, Inputs]:
    body = (ConvNormActivation(3, 24, 3, 2), ShuffleUnit(24, 2), ShuffleUnit(24, 1), ShuffleUnit(24, 1))
    return _classifier(nn.Sequential(*body), 24), images(64)


@shelf("vision", *BOTH)
def mnasnet() -> tuple[nn.Module, Inputs]:
    rows = ((32, 16, 1, 1), (16, 24, 2, 3), (24, 40, 2, 3), (40, 80, 2, 6), (80, 96, 1, 6))
    layers = [ConvNormActivation(3, 32, 3, 2), *(InvertedResidual(i, o, stride, e) for i, o, stride, e in rows)]
    return _classifier(nn.Sequential(*layers), 96), images(64)


class RegNetBlock(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int, group_width: int) -> None:
        super().__init__()
        self.proj = ConvNormActivation(inside, outside, 1, stride) if stride != 1 or inside != outside else None
        self.f = nn.Sequential(
            ConvNormActivation(inside, outside, 1, act=nn.ReLU),
            ConvNormActivation(outside, outside, 3, stride, outside // group_width, nn.ReLU),
            SqueezeExcitation(outside, inside // 4, nn.ReLU(), nn.Sigmoid()),
            nn.Conv2d(outside, outside, 1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.proj(x) + self.f(x) if self.proj is not None else x + self.f(x)
        return functional.relu(x)


@shelf("vision", *BOTH)
def regnet() -> tuple[nn.Module, Inputs]:
    body = (
        ConvNormActivation(3, 32, 3, 2),
        RegNetBlock(32, 48, 2, 8),
        RegNetBlock(48, 48, 1, 8),
        RegNetBlock(48, 96, 2, 16),
    )
    return _classifier(nn.Sequential(*body), 96), images(64)
