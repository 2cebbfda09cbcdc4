"""Recommendation, tabular and graph networks written by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


class Dlrm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(100, 8, mode="sum") for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
        self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: Tensor, indices: list[Tensor], offsets: list[Tensor]) -> Tensor:
        bottom = self.bottom(dense)
        features = torch.stack(
            [bottom, *(bag(i, o) for bag, i, o in zip(self.bags, indices, offsets, strict=True))], 1
        )
        pairs = torch.bmm(features, features.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([bottom, pairs[:, rows, columns]], 1)).sigmoid()


@shelf("recommendation")
def dlrm() -> tuple[nn.Module, Inputs]:
    indices = [torch.tensor([1, 2, 3, 4, 5]) + i for i in range(3)]
    offsets = [torch.tensor([0, 2])] * 3
    return Dlrm(), (torch.randn(2, 4), indices, offsets)


class DeepFm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.factors = nn.Embedding(100, 1), nn.Embedding(100, 8)
        self.deep = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, fields: Tensor) -> Tensor:
        v = self.factors(fields)
        pairs = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(-1, keepdim=True)
        return (self.linear(fields).sum(1) + pairs + self.deep(v.flatten(1))).sigmoid()


@shelf("recommendation")
def deepfm() -> tuple[nn.Module, Inputs]:
    return DeepFm(), (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]),)


class WideAndDeep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.EmbeddingBag(100, 1, mode="mean")
        self.words, self.deep = nn.Embedding(100, 8), nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, fields: Tensor) -> Tensor:
        return self.wide(fields) + self.deep(self.words(fields).flatten(1))


@shelf("recommendation")
def wide_and_deep() -> tuple[nn.Module, Inputs]:
    return WideAndDeep(), (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]),)


class TwoTower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = (nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 8)) for _ in range(2))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return functional.normalize(self.user(users), dim=-1) @ functional.normalize(self.item(items), dim=-1).T


@shelf("recommendation")
def two_tower() -> tuple[nn.Module, Inputs]:
    return TwoTower(), (torch.arange(4), torch.arange(6))


class GraphConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, adjacency: Tensor, x: Tensor) -> Tensor:
        x = functional.relu(torch.sparse.mm(adjacency, self.first(x)))
        return torch.sparse.mm(adjacency, self.second(x)).log_softmax(-1)


@shelf("graph")
def graph_convolution() -> tuple[nn.Module, Inputs]:
    edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 0]])
    return GraphConv(), (torch.sparse_coo_tensor(edges, torch.full((6,), 0.5), (5, 5)).coalesce(), torch.randn(5, 8))


class GraphAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.score = nn.Linear(8, 8), nn.Linear(16, 1)

    def forward(self, edges: Tensor, x: Tensor) -> Tensor:
        source, target = edges
        h = self.project(x)
        weight = functional.leaky_relu(self.score(torch.cat([h[source], h[target]], -1))).exp()
        total = torch.zeros(x.shape[0], 1).index_add(0, target, weight)
        return torch.zeros_like(h).index_add(0, target, weight * h[source]) / total.clamp(min=1e-6)[:, :1]


@shelf("graph")
def graph_attention() -> tuple[nn.Module, Inputs]:
    return GraphAttention(), (torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), torch.randn(4, 8))


class MessagePassing(nn.Module):
    """Gathers along edges, scatters to nodes, updates with a recurrent cell."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(8, 8), nn.GRUCell(8, 8)

    def forward(self, edges: Tensor, x: Tensor) -> Tensor:
        for _ in range(3):
            gathered = torch.zeros_like(x).scatter_add(0, edges[1, :, None].expand(-1, 8), self.message(x[edges[0]]))
            x = self.update(gathered, x)
        return x.sum(0)


@shelf("graph")
def message_passing() -> tuple[nn.Module, Inputs]:
    return MessagePassing(), (torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), torch.randn(4, 8))


class DeepSets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Sequential(nn.Linear(3, 16), nn.ReLU()), nn.Linear(16, 2)

    def forward(self, members: Tensor, mask: Tensor) -> Tensor:
        return self.outer((self.inner(members) * mask.unsqueeze(-1)).sum(1))


@shelf("graph")
def deep_sets() -> tuple[nn.Module, Inputs]:
    return DeepSets(), (torch.randn(2, 5, 3), torch.ones(2, 5))


class FieldTransformer(nn.Module):
    """One token per column of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(6, 16)), nn.Parameter(torch.zeros(6, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x.unsqueeze(-1) * self.weight + self.bias).mean(1))


@shelf("tabular")
def field_transformer() -> tuple[nn.Module, Inputs]:
    return FieldTransformer().eval(), (torch.randn(3, 6),)


class SoftTree(nn.Module):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.gates, self.leaves = nn.Linear(6, 2**depth - 1), nn.Parameter(torch.randn(2**depth, 2))
        self.depth = depth

    def forward(self, x: Tensor) -> Tensor:
        gates, path = self.gates(x).sigmoid(), x.new_ones(x.shape[0], 1)
        for level in range(self.depth):
            here = gates[:, 2**level - 1 : 2 ** (level + 1) - 1]
            path = torch.stack([path * here, path * (1 - here)], -1).flatten(1)
        return path @ self.leaves


@shelf("tabular")
def soft_tree() -> tuple[nn.Module, Inputs]:
    return SoftTree(), (torch.randn(3, 6),)


@shelf("tabular")
def plain_mlp() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 1)), (
        torch.randn(4, 6),
    )
