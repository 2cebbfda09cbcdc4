"""Two whole models in plain torch, of the size of ResNet-50 and GPT-2, without downloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

BATCH = {"cuda": (64, 16), "cpu": (1, 1)}
"""Number of images and sequences per batch."""
LENGTH = 512
VOCABULARY = 50257


class Bottleneck(nn.Module):
    """A bottleneck of three convolutions with a shortcut."""

    def __init__(self, inside: int, middle: int, stride: int) -> None:
        super().__init__()
        outside = 4 * middle
        self.narrow, self.first = nn.Conv2d(inside, middle, 1, bias=False), nn.BatchNorm2d(middle)
        self.middle = nn.Conv2d(middle, middle, 3, stride, 1, bias=False)
        self.second = nn.BatchNorm2d(middle)
        self.widen, self.third = nn.Conv2d(middle, outside, 1, bias=False), nn.BatchNorm2d(outside)
        same = stride == 1 and inside == outside
        past = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.past = nn.Identity() if same else past

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of the convolutions and the shortcut."""
        y = F.relu(self.first(self.narrow(x)))
        y = F.relu(self.second(self.middle(y)))
        return F.relu(self.third(self.widen(y)) + self.past(x))


def convolutional() -> nn.Module:
    """Fifty layers, 25.6 million parameters."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inside = 64
    for stage, (count, middle) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for index in range(count):
            layers.append(Bottleneck(inside, middle, 2 if stage and not index else 1))
            inside = 4 * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


class Block(nn.Module):
    """Attention and a feed-forward network, each after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The residual stream with both added."""
        batch, length, width = x.shape
        parts = self.project(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.widen(self.between(x))))


class Decoder(nn.Module):
    """Twelve blocks, 124 million parameters, with a tied head."""

    def __init__(self, width: int = 768, heads: int = 12, blocks: int = 12) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(1024, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.last = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of every position."""
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return F.linear(self.last(self.blocks(x)), self.words.weight)


def models(device: str) -> Iterator[tuple[str, nn.Module, tuple[Any, ...]]]:
    """Name, model and inputs, in bfloat16 on `device`."""
    images, sequences = BATCH[device]
    torch.manual_seed(0)
    network = convolutional().to(device, torch.bfloat16).eval()
    yield f"ResNet-50 size, batch {images}", network, (torch.randn(images, 3, 224, 224).to(device, torch.bfloat16),)
    decoder = Decoder().to(device, torch.bfloat16).eval()
    tokens = torch.randint(0, VOCABULARY, (sequences, LENGTH)).to(device)
    yield f"GPT-2 size, batch {sequences} of {LENGTH}", decoder, (tokens,)
