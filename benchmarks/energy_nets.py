"""Small implementations of models that transformers does not have, or only with features not wanted here."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F


def vgg(width: int) -> nn.Module:
    """Thirteen convolutions and three linear layers."""
    layers: list[nn.Module] = []
    inside = 3
    for repeats, times in ((2, 1), (2, 2), (3, 4), (3, 8), (3, 8)):
        for _ in range(repeats):
            layers += [nn.Conv2d(inside, times * width, 3, padding=1), nn.ReLU()]
            inside = times * width
        layers.append(nn.MaxPool2d(2))
    wide = 64 * width
    head = [nn.Linear(49 * inside, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 1000)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head)


class DenseNet(nn.Module):
    """Blocks in which each layer reads the outputs of all layers before it."""

    def __init__(self, growth: int, layers: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 2 * growth, 7, 2, 3)
        self.blocks, self.between = nn.ModuleList(), nn.ModuleList()
        inside = 2 * growth
        for _ in range(3):
            block = nn.ModuleList(
                nn.Sequential(
                    nn.BatchNorm2d(inside + number * growth),
                    nn.ReLU(),
                    nn.Conv2d(inside + number * growth, 4 * growth, 1),
                    nn.BatchNorm2d(4 * growth),
                    nn.ReLU(),
                    nn.Conv2d(4 * growth, growth, 3, padding=1),
                )
                for number in range(layers)
            )
            self.blocks.append(block)
            inside += layers * growth
            self.between.append(nn.Sequential(nn.Conv2d(inside, inside // 2, 1), nn.AvgPool2d(2)))
            inside //= 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The features of the last block."""
        x = self.stem(x)
        for block, between in zip(self.blocks, self.between, strict=True):
            for layer in block:  # type: ignore[union-attr]
                x = torch.cat([x, layer(x)], 1)
            x = between(x)
        return x.mean((2, 3))


class AudioCoder(nn.Module):
    """Strided convolutions over samples, and transposed ones back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [1, width, 2 * width, 4 * width, 8 * width]
        down = [nn.Sequential(nn.Conv1d(a, b, 8, 4, 2), nn.ELU()) for a, b in pairwise(sizes)]
        back = sizes[::-1]
        up = [nn.Sequential(nn.ConvTranspose1d(a, b, 8, 4, 2), nn.ELU()) for a, b in pairwise(back)]
        self.steps = nn.Sequential(*down, *up)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The decoded samples."""
        return self.steps(x)


class CellLoop(nn.Module):
    """An LSTM cell in a Python loop, limited by launches."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        """The last state."""
        state = steps.new_zeros(steps.shape[1:]), steps.new_zeros(steps.shape[1:])
        for step in steps:
            state = self.cell(step, state)
        return state[0]


class TwoTowers(nn.Module):
    """Averaged embeddings of users and items, each with a small network."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.users, self.items = nn.EmbeddingBag(words, width), nn.EmbeddingBag(words, width)
        self.left, self.right = (
            nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)) for _ in range(2)
        )

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Scores of all pairs."""
        return self.left(self.users(users)) @ self.right(self.items(items)).t()


class PointCloud(nn.Module):
    """A network applied to each point, and the largest feature over all points."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [3, 64, 64, 128, 1024]
        steps: list[nn.Module] = []
        for a, b in pairwise(sizes):
            steps += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        self.each = nn.Sequential(*steps)
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 40))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """The scores of the classes."""
        return self.head(self.each(points).amax(-1))


class OneTokenBlock(nn.Module):
    """One block of a decoder that reads one token and a stored cache."""

    def __init__(self, width: int, heads: int, stored: int, length: int, batch: int) -> None:
        super().__init__()
        each = width // heads
        self.heads, self.stored, self.each = heads, stored, each
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.join = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.pair = nn.Linear(width, 2 * stored * each, bias=False)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)
        self.register_buffer("keys", torch.randn(batch, stored, length, each))
        self.register_buffer("values", torch.randn(batch, stored, length, each))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The residual stream of the token."""
        batch = x.shape[0]
        y = self.before(x)
        query = self.query(y).view(batch, 1, self.heads, self.each).transpose(1, 2)
        key, value = self.pair(y).view(batch, 1, 2, self.stored, self.each).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([self.keys, key], 2), torch.cat([self.values, value], 2)
        times = self.heads // self.stored
        keys, values = keys.repeat_interleave(times, 1), values.repeat_interleave(times, 1)
        seen = F.scaled_dot_product_attention(query, keys, values)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, 1, -1))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class OneTokenDecoder(nn.Module):
    """Generates one token: reads all weights and a cache for little work."""

    def __init__(self, width: int, heads: int, stored: int, blocks: int, length: int, batch: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(OneTokenBlock(width, heads, stored, length, batch) for _ in range(blocks)))
        self.head = nn.Linear(width, 32000, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the next token."""
        return self.head(self.blocks(x))


class Expert(nn.Module):
    """A gated feed-forward network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its output."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MixtureBlock(nn.Module):
    """Attention, then the two experts with the highest scores per token."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.heads = max(1, width // 64)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.route = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The residual stream."""
        batch, length, width = x.shape
        parts = self.project(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        flat = self.between(x).reshape(-1, width)
        weights, chosen = torch.softmax(self.route(flat), -1).topk(2)
        mixed = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            mixed.index_add_(0, token, expert(flat[token]) * weights[token, place, None])
        return x + mixed.view_as(x)


class MixtureOfExperts(nn.Module):
    """Blocks with experts chosen per token."""

    def __init__(self, width: int, experts: int, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(MixtureBlock(width, experts) for _ in range(blocks)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The last residual stream."""
        return self.blocks(x)


class Residual(nn.Module):
    """Group norms, SiLU and convolutions with a shortcut."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(32, inside), nn.GroupNorm(32, outside)
        self.one, self.two = nn.Conv2d(inside, outside, 3, padding=1), nn.Conv2d(outside, outside, 3, padding=1)
        self.past = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its output."""
        return self.past(x) + self.two(F.silu(self.second(self.one(F.silu(self.first(x))))))


class Attention2d(nn.Module):
    """Attention over the positions of an image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.project, self.join = (
            nn.GroupNorm(32, width),
            nn.Conv2d(width, 3 * width, 1),
            nn.Conv2d(width, width, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its output."""
        batch, width, high, wide = x.shape
        parts = self.project(self.norm(x)).view(batch, 3, 8, width // 8, high * wide).transpose(-1, -2).unbind(1)
        seen = F.scaled_dot_product_attention(*parts)
        return x + self.join(seen.transpose(-1, -2).reshape(batch, width, high, wide))


class UNet(nn.Module):
    """Three levels down and up with skips, attention at the two lower ones, as diffusion models use it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        w = width
        self.stem = nn.Conv2d(4, w, 3, padding=1)
        self.down1, self.shrink1 = nn.Sequential(Residual(w, w), Residual(w, w)), nn.Conv2d(w, w, 3, 2, 1)
        self.down2, self.shrink2 = (
            nn.Sequential(Residual(w, 2 * w), Attention2d(2 * w)),
            nn.Conv2d(2 * w, 2 * w, 3, 2, 1),
        )
        self.middle = nn.Sequential(Residual(2 * w, 4 * w), Attention2d(4 * w), Residual(4 * w, 4 * w))
        self.up2 = nn.Sequential(Residual(6 * w, 2 * w), Attention2d(2 * w))
        self.up1 = nn.Sequential(Residual(3 * w, w), Residual(w, w))
        self.last = nn.Sequential(nn.GroupNorm(32, w), nn.SiLU(), nn.Conv2d(w, 4, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The predicted noise."""
        first = self.down1(self.stem(x))
        second = self.down2(self.shrink1(first))
        y = self.middle(self.shrink2(second))
        y = self.up2(torch.cat([F.interpolate(y, scale_factor=2.0), second], 1))
        y = self.up1(torch.cat([F.interpolate(y, scale_factor=2.0), first], 1))
        return self.last(y)


class Mixer(nn.Module):
    """Networks over patches and over channels in turn."""

    def __init__(self, side: int, width: int, blocks: int) -> None:
        super().__init__()
        patches = (side // 16) ** 2
        self.stem = nn.Conv2d(3, width, 16, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * blocks))
        self.across = nn.ModuleList(_narrow(patches, width // 2) for _ in range(blocks))
        self.along = nn.ModuleList(_narrow(width, 4 * width) for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The mean feature."""
        x = self.stem(x).flatten(2).transpose(1, 2)
        for number, (across, along) in enumerate(zip(self.across, self.along, strict=True)):
            x = x + across(self.norms[2 * number](x).transpose(1, 2)).transpose(1, 2)
            x = x + along(self.norms[2 * number + 1](x))
        return x.mean(1)


def _narrow(outside: int, inside: int) -> nn.Module:
    return nn.Sequential(nn.Linear(outside, inside), nn.GELU(), nn.Linear(inside, outside))


class Ranking(nn.Module):
    """Embeddings of categories, products of all pairs, and networks below and above, as in DLRM."""

    def __init__(self, tables: int, words: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(words, width) for _ in range(tables))
        self.below = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        pairs = (tables + 1) ** 2
        self.above = nn.Sequential(
            nn.Linear(pairs + width, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)
        )

    def forward(self, dense: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
        """A score per row."""
        x = self.below(dense)
        every = torch.stack([x, *(table(picked[:, number]) for number, table in enumerate(self.tables))], 1)
        pairs = torch.bmm(every, every.transpose(1, 2)).flatten(1)
        return self.above(torch.cat([x, pairs], 1))


class Gathering(nn.Module):
    """Layers that gather the features of neighbours, transform and sum them."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """The features of the nodes."""
        for layer in self.layers:
            messages = x.index_select(0, edges[0])
            x = F.relu(layer(torch.cat([x, torch.zeros_like(x).index_add_(0, edges[1], messages)], 1)))
        return x
