"""Points, graphs, recommendation and control."""

import torch
from torch import Tensor, nn

from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


class TNet(nn.Module):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.mlp = nn.Sequential(nn.Conv1d(k, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1))
        self.fc = nn.Linear(64, k * k)

    def forward(self, x: Tensor) -> Tensor:
        flat = self.fc(torch.max(self.mlp(x), 2)[0])
        return flat.view(-1, self.k, self.k) + torch.eye(self.k, device=x.device)


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transform = TNet(3)
        self.mlp = nn.Sequential(nn.Conv1d(3, 32, 1), nn.ReLU(), nn.Conv1d(32, 64, 1))
        self.fc = nn.Linear(64, 10)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        matrix = self.transform(points)
        x = torch.bmm(points.transpose(2, 1), matrix).transpose(2, 1)
        return self.fc(self.mlp(x).amax(dim=2)), matrix


@shelf("points", *BOTH)
def pointnet() -> tuple[nn.Module, Inputs]:
    return PointNet(), (torch.randn(2, 3, 100),)


def knn(x: Tensor, k: int) -> Tensor:
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    squares = torch.sum(x**2, dim=1, keepdim=True)
    return (-squares - inner - squares.transpose(2, 1)).topk(k=k, dim=-1)[1]


class EdgeConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, n = x.size()
        chosen = (knn(x, 4) + torch.arange(0, b).view(-1, 1, 1) * n).view(-1)
        feature = x.transpose(2, 1).reshape(b * n, -1)[chosen, :].view(b, n, 4, c)
        center = x.transpose(2, 1).reshape(b, n, 1, c).repeat(1, 1, 4, 1)
        edges = torch.cat((feature - center, center), dim=3).permute(0, 3, 1, 2)
        return self.conv(edges).max(dim=-1)[0]


@shelf("points", *BOTH)
def edge_convolution() -> tuple[nn.Module, Inputs]:
    return EdgeConv(), (torch.randn(2, 3, 20),)


class GraphConv(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inside, outside)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        ones = torch.ones(edges.size(1), device=x.device)
        degree = torch.zeros(x.size(0)).scatter_add_(0, target, ones).clamp(min=1).pow(-0.5)
        messages = self.lin(x).index_select(0, source) * (degree[source] * degree[target]).unsqueeze(-1)
        return torch.zeros(x.size(0), messages.size(1)).index_add_(0, target, messages)


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GraphConv(8, 16), GraphConv(16, 4)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.conv2(torch.relu(self.conv1(x, edges)), edges)


@shelf("graph", *BOTH)
def graph_convolution() -> tuple[nn.Module, Inputs]:
    return GraphNet(), (torch.randn(10, 8), torch.randint(0, 10, (2, 30)))


class GraphAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 12)
        self.score = nn.Parameter(torch.randn(24))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        h = self.lin(x)
        pairs = torch.cat([h[edges[0]], h[edges[1]]], dim=-1)
        weight = torch.exp(nn.functional.leaky_relu(pairs @ self.score, 0.2))
        total = torch.zeros(x.size(0)).scatter_reduce(0, edges[1], weight, reduce="sum", include_self=False)
        share = weight / (total[edges[1]] + 1e-9)
        return torch.zeros_like(h).index_add(0, edges[1], h[edges[0]] * share.unsqueeze(1))


@shelf("graph", *BOTH, counted=False)
def graph_attention() -> tuple[nn.Module, Inputs]:
    return GraphAttention(), (torch.randn(10, 8), torch.randint(0, 10, (2, 30)))


class BagClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(200, 16, mode="mean")
        self.fc = nn.Linear(16, 4)

    def forward(self, text: Tensor, offsets: Tensor) -> Tensor:
        return self.fc(self.embedding(text, offsets))


@shelf("recommendation", *BOTH)
def embedding_bag() -> tuple[nn.Module, Inputs]:
    return BagClassifier(), (torch.randint(0, 200, (30,)), torch.tensor([0, 8, 20]))


class Dlrm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.embeddings = nn.ModuleList(nn.EmbeddingBag(100, 16, mode="sum") for _ in range(4))
        self.top = nn.Sequential(nn.Linear(26, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
        rows, columns = torch.tril_indices(5, 5, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense: Tensor, sparse: list[Tensor]) -> Tensor:
        features = [self.bottom(dense)]
        for index, embedding in enumerate(self.embeddings):
            features.append(embedding(sparse[index]))
        stacked = torch.stack(features, dim=1)
        crossed = torch.bmm(stacked, stacked.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([features[0], crossed], dim=1))


@shelf("recommendation", *BOTH)
def dlrm() -> tuple[nn.Module, Inputs]:
    return Dlrm(), (torch.randn(6, 13), [torch.randint(0, 100, (6, 3)) for _ in range(4)])


class WideDeep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleDict({"user": nn.Embedding(50, 8), "item": nn.Embedding(80, 8)})
        self.wide = nn.Linear(16, 1)
        self.deep = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ids: dict[str, Tensor]) -> Tensor:
        parts: list[Tensor] = []
        for name, table in self.tables.items():
            parts.append(table(ids[name]))
        x = torch.cat(parts, dim=-1)
        return torch.sigmoid(self.wide(x) + self.deep(x))


@shelf("recommendation", *BOTH)
def wide_and_deep() -> tuple[nn.Module, Inputs]:
    return WideDeep(), ({"user": torch.randint(0, 50, (4,)), "item": torch.randint(0, 80, (4,))},)


class DuelingDqn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten())
        self.value, self.advantage = nn.Linear(32 * 16, 1), nn.Linear(32 * 16, 6)

    def forward(self, frames: Tensor) -> Tensor:
        x = self.conv(frames.float() / 255)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(dim=1, keepdim=True)


@shelf("control", *BOTH)
def dueling_dqn() -> tuple[nn.Module, Inputs]:
    return DuelingDqn(), (torch.randint(0, 255, (2, 4, 48, 48), dtype=torch.uint8),)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.Tanh())
        self.mean, self.critic = nn.Linear(32, 2), nn.Linear(32, 1)
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        x = self.body(observation)
        mean = torch.tanh(self.mean(x))
        return {"action": mean + self.log_std.exp() * torch.randn_like(mean), "value": self.critic(x).squeeze(-1)}


@shelf("control", *BOTH)
def actor_critic() -> tuple[nn.Module, Inputs]:
    return ActorCritic(), (torch.randn(5, 8),)


class GaussianProcess(nn.Module):
    """Linear algebra: a kernel, a factorisation and a solve."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("points", torch.randn(12, 3))
        self.register_buffer("targets", torch.randn(12, 1))

    def forward(self, x: Tensor) -> Tensor:
        kernel = torch.exp(-torch.cdist(self.points, self.points)) + 0.1 * torch.eye(12)
        factor = torch.linalg.cholesky(kernel)
        weights = torch.cholesky_solve(self.targets, factor)
        return torch.exp(-torch.cdist(x, self.points)) @ weights


@shelf("control", *BOTH, counted=False)
def gaussian_process() -> tuple[nn.Module, Inputs]:
    return GaussianProcess(), (torch.randn(4, 3),)
