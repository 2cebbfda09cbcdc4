"""Hard control flow: branches, loops and shapes that depend on the data."""

from __future__ import annotations

import numpy
import torch
from torch import Tensor, nn

from models.registry import Inputs, case

X = torch.linspace(-1, 1, 16).reshape(2, 8)
TOKENS = torch.arange(12).reshape(2, 6) % 10


class BranchOnSum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positive = nn.Linear(8, 8)
        self.negative = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return self.positive(x)
        return self.negative(x)


@case
def branch_on_sum() -> tuple[nn.Module, Inputs]:
    return BranchOnSum(), (X + 1,)


class WhileItem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        rounds = 0
        while x.abs().mean().item() > 0.05 and rounds < 20:
            x = torch.tanh(self.step(x)) * 0.5
            rounds += 1
        return x


@case
def while_item() -> tuple[nn.Module, Inputs]:
    torch.manual_seed(0)
    return WhileItem(), (X,)


class MaskIndexing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        y[y < 0] = 0.0
        return y[x > 0].mean()


@case
def boolean_mask() -> tuple[nn.Module, Inputs]:
    return MaskIndexing(), (X,)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, places = (chosen == number).nonzero(as_tuple=True)
            if rows.numel():
                out.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
        return out


@case
def expert_loop() -> tuple[nn.Module, Inputs]:
    torch.manual_seed(1)
    return Experts(), (torch.linspace(-2, 2, 48).reshape(6, 8),)


class Generates(nn.Module):
    """Extends a sequence token by token until the end token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, tokens: Tensor, limit: int = 8) -> Tensor:
        for _ in range(limit):
            following = self.head(self.embedding(tokens).mean(1)).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, following], dim=1)
            if (following == 0).all():
                break
        return tokens


@case
def generate_loop() -> tuple[nn.Module, Inputs]:
    torch.manual_seed(0)
    return Generates(), (TOKENS,)


class NumpyInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        window = numpy.hanning(8).astype(numpy.float32)
        order = numpy.argsort(x.detach().cpu().numpy(), axis=-1)
        return self.inner(x * torch.from_numpy(window)).gather(-1, torch.from_numpy(order))


@case
def numpy_inside() -> tuple[nn.Module, Inputs]:
    return NumpyInside(), (X,)


class PythonNumbers(nn.Module):
    """Shapes computed from data: `tolist` feeds `split`."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        parts = self.inner(x).split(lengths.tolist())
        return torch.stack([part.sum(0) for part in parts])


@case
def split_by_data() -> tuple[nn.Module, Inputs]:
    return PythonNumbers(), (torch.ones(6, 8), torch.tensor([1, 2, 3]))


class UniqueTokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        unique, places = tokens.unique(return_inverse=True)
        return self.embedding(unique)[places]


@case
def unique_tokens() -> tuple[nn.Module, Inputs]:
    return UniqueTokens(), (TOKENS,)


class Cond(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,))


@case
def torch_cond() -> tuple[nn.Module, Inputs]:
    return Cond(), (X,)


class Random(nn.Module):
    """Draws noise, so that a second run differs unless the generator is restored."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.randn_like(x) + float(numpy.random.rand())
        return self.inner(x + noise)


@case
def random_noise() -> tuple[nn.Module, Inputs]:
    return Random(), (X,)
