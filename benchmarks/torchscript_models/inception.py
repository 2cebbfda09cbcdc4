"""Inception networks with auxiliary outputs, which depend on the mode."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.images import images
from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


class GoogLeNetOutputs(NamedTuple):
    logits: Tensor
    aux: Tensor | None


class ConvNorm(nn.Module):
    def __init__(self, inside: int, outside: int, kernel: int, padding: int = 0, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outside, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    def __init__(self, inside: int) -> None:
        super().__init__()
        self.branch1 = ConvNorm(inside, 8, 1)
        self.branch2 = nn.Sequential(ConvNorm(inside, 8, 1), ConvNorm(8, 16, 3, 1))
        self.branch3 = nn.Sequential(ConvNorm(inside, 4, 1), ConvNorm(4, 8, 3, 1))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), ConvNorm(inside, 8, 1))

    def _forward(self, x: Tensor) -> list[Tensor]:
        return [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(self._forward(x), 1)


class InceptionAux(nn.Module):
    def __init__(self, inside: int) -> None:
        super().__init__()
        self.conv = ConvNorm(inside, 16, 1)
        self.fc = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(functional.adaptive_avg_pool2d(x, (4, 4)))
        return self.fc(functional.dropout(torch.flatten(x, 1), 0.7, training=self.training))


class GoogLeNet(nn.Module):
    def __init__(self, aux: bool, transform: bool) -> None:
        super().__init__()
        self.transform_input = transform
        self.aux_logits = aux
        self.stem = ConvNorm(3, 32, 7, 3, 2)
        self.inception1 = Inception(32)
        self.inception2 = Inception(40)
        self.aux = InceptionAux(40) if aux else None
        self.fc = nn.Linear(40, 10)

    def _transform_input(self, x: Tensor) -> Tensor:
        if self.transform_input:
            red = torch.unsqueeze(x[:, 0], 1) * (0.229 / 0.5) + (0.485 - 0.5) / 0.5
            green = torch.unsqueeze(x[:, 1], 1) * (0.224 / 0.5) + (0.456 - 0.5) / 0.5
            blue = torch.unsqueeze(x[:, 2], 1) * (0.225 / 0.5) + (0.406 - 0.5) / 0.5
            x = torch.cat((red, green, blue), 1)
        return x

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        x = self.inception1(self.stem(x))
        aux: Tensor | None = None
        if self.aux is not None and (self.training or self.aux_logits):
            aux = self.aux(x)
        x = functional.adaptive_avg_pool2d(self.inception2(x), (1, 1))
        return self.fc(torch.flatten(x, 1)), aux

    @torch.jit.unused
    def eager_outputs(self, x: Tensor, aux: Tensor | None) -> GoogLeNetOutputs:
        return GoogLeNetOutputs(x, aux)

    def forward(self, x: Tensor) -> GoogLeNetOutputs:
        x = self._transform_input(x)
        x, aux = self._forward(x)
        if torch.jit.is_scripting():
            return GoogLeNetOutputs(x, aux)
        return self.eager_outputs(x, aux)


@shelf("vision", "scripted", "traced")
def googlenet() -> tuple[nn.Module, Inputs]:
    return GoogLeNet(aux=True, transform=True), images(64)


@shelf("vision", "scripted")
def googlenet_without_aux() -> tuple[nn.Module, Inputs]:
    return GoogLeNet(aux=False, transform=False), images(64)


class Factored(nn.Module):
    def __init__(self, inside: int) -> None:
        super().__init__()
        self.wide = nn.Conv2d(inside, 12, (1, 7), padding=(0, 3))
        self.tall = nn.Conv2d(12, 12, (7, 1), padding=(3, 0))
        self.pool = nn.Conv2d(inside, 12, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1)
        return torch.cat([self.tall(self.wide(x)), self.pool(pooled)], 1)


@shelf("vision", "scripted", "traced")
def inception_v3_like() -> tuple[nn.Module, Inputs]:
    body = (ConvNorm(3, 16, 3, 0, 2), nn.MaxPool2d(3, 2), Factored(16), Factored(24))
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)), images(75)
