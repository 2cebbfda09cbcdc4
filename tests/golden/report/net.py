"""A small image classifier with something to show in every view of the report.

Three stages of equal blocks, one of them wider; one layer with weights that are far too large; a ReLU with dead
channels; a sigmoid that is saturated; and a logarithm of negative numbers, whose NaN the model hides.
"""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions, added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x + self.conv2(self.relu(self.norm1(self.conv1(x)))))


class Gate(nn.Module):
    """A share between 0 and 1 per channel, which is 0 or 1 almost everywhere."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.sigmoid(60 * self.linear(x))


class Entropy(nn.Module):
    """Logarithms of numbers that may be negative."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x)


class Net(nn.Module):
    """Ten scores per image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.stages = nn.ModuleList(nn.Sequential(*(Block(32) for _ in range(4))) for _ in range(3))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.gate = Gate(32)
        self.entropy = Entropy()
        self.head = nn.Linear(32, 10)
        self.spare = nn.Linear(32, 32)
        with torch.no_grad():
            self.stages[1][2].conv2.weight.mul_(30)
            self.stages[0][0].norm1.bias[:8] = -100
            self.spare.weight.fill_(0.5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        for stage in self.stages:
            x = stage(x)
        x = self.pool(x).flatten(1)
        scores = self.head(x * self.gate(x))
        return scores + self.entropy(scores).nan_to_num(0)


def load() -> Net:
    """The classifier with fixed weights."""
    torch.manual_seed(0)
    return Net().eval()
