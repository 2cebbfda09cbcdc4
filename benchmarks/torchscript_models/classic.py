"""Convolutional classifiers of the first years, written as torchvision writes them."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.images import images
from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inside: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inside: int, width: int, stride: int, downsample: nn.Module | None, groups: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block: type, depths: tuple[int, ...]) -> None:
        super().__init__()
        self.inside = 64
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._layer(block, 64, depths[0], 1)
        self.layer2 = self._layer(block, 128, depths[1], 2)
        self.layer3 = self._layer(block, 256, depths[2], 2)
        self.layer4 = self._layer(block, 512, depths[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, 1000)

    def _layer(self, block: type, width: int, depth: int, stride: int) -> nn.Sequential:
        wide = width * block.expansion
        downsample = None
        if stride != 1 or self.inside != wide:
            downsample = nn.Sequential(nn.Conv2d(self.inside, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
        layers = [block(self.inside, width, stride, downsample)]
        layers += [block(wide, width, 1, None) for _ in range(1, depth)]
        self.inside = wide
        return nn.Sequential(*layers)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(x)

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


@shelf("vision", *BOTH)
def resnet18() -> tuple[nn.Module, Inputs]:
    return ResNet(BasicBlock, (2, 2, 2, 2)), images(64)


@shelf("vision", *BOTH)
def resnet50() -> tuple[nn.Module, Inputs]:
    return ResNet(Bottleneck, (3, 4, 6, 3)), images(64)


@shelf("vision", *BOTH)
def vgg11() -> tuple[nn.Module, Inputs]:
    layers: list[nn.Module] = []
    inside = 3
    for width, repeats in ((32, 1), (64, 1), (128, 2), (256, 2), (256, 2)):
        for _ in range(repeats):
            layers += [nn.Conv2d(inside, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            inside = width
        layers.append(nn.MaxPool2d(2, 2))
    head = (nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(True), nn.Dropout())
    return nn.Sequential(nn.Sequential(*layers), *head, nn.Linear(256, 100)), images(64)


class AlexNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 256, 3, padding=1),
            nn.ReLU(inplace=True),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(256 * 36, 128), nn.ReLU(True), nn.Linear(128, 1000))

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x))
        return self.classifier(torch.flatten(x, 1))


@shelf("vision", *BOTH)
def alexnet() -> tuple[nn.Module, Inputs]:
    return AlexNet(), images(128)


class Fire(nn.Module):
    def __init__(self, inside: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inside, squeeze, 1)
        self.activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(self.squeeze(x))
        return torch.cat([self.activation(self.expand1x1(x)), self.activation(self.expand3x3(x))], 1)


@shelf("vision", *BOTH)
def squeezenet() -> tuple[nn.Module, Inputs]:
    body = (nn.Conv2d(3, 64, 3, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(64, 16, 64))
    more = (
        Fire(128, 16, 64),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(128, 32, 128),
        nn.Dropout(),
        nn.Conv2d(256, 10, 1),
    )
    return nn.Sequential(*body, *more, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten()), images(64)


class DenseLayer(nn.Module):
    def __init__(self, inside: int, growth: int, drop_rate: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inside)
        self.conv1 = nn.Conv2d(inside, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)

    def bottleneck(self, features: list[Tensor]) -> Tensor:
        return self.conv1(functional.relu(self.norm1(torch.cat(features, 1))))

    def forward(self, features: list[Tensor]) -> Tensor:
        new = self.conv2(functional.relu(self.norm2(self.bottleneck(features))))
        if self.drop_rate > 0:
            new = functional.dropout(new, p=self.drop_rate, training=self.training)
        return new


class DenseBlock(nn.ModuleDict):
    def __init__(self, depth: int, inside: int, growth: int) -> None:
        super().__init__()
        for index in range(depth):
            self.add_module(f"denselayer{index + 1}", DenseLayer(inside + index * growth, growth, 0.1))

    def forward(self, first: Tensor) -> Tensor:
        features = [first]
        for _, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


@shelf("vision", *BOTH)
def densenet() -> tuple[nn.Module, Inputs]:
    features = nn.Sequential()
    features.add_module("conv0", nn.Conv2d(3, 16, 7, 2, 3, bias=False))
    features.add_module("denseblock1", DenseBlock(6, 16, 8))
    features.add_module(
        "transition1", nn.Sequential(nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 32, 1), nn.AvgPool2d(2))
    )
    features.add_module("denseblock2", DenseBlock(6, 32, 8))
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(80, 10)), images(64)


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), (2, 2))
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = x.view(-1, x.size(1) * x.size(2) * x.size(3))
        return functional.log_softmax(self.fc2(functional.relu(self.fc1(x))), dim=1)


@shelf("vision", *BOTH)
def lenet() -> tuple[nn.Module, Inputs]:
    return LeNet(), images(32, 1, 4)
