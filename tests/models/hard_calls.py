"""Hard module calls: shared, tied, bypassed, repeated, created in forward, not called at all."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from models.registry import Inputs, case

X = torch.linspace(-1, 1, 16).reshape(2, 8)


class SharedThreeTimes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.again = self.block

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.block(self.block(x)))


@case
def shared_module() -> tuple[nn.Module, Inputs]:
    return SharedThreeTimes(), (X,)


class TiedLanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.mix(self.embedding(tokens)))


@case
def tied_weights() -> tuple[nn.Module, Inputs]:
    return TiedLanguageModel(), (torch.arange(10).reshape(2, 5),)


class ViewedWeights(nn.Module):
    """Two parameters that are views of one storage."""

    def __init__(self) -> None:
        super().__init__()
        both = torch.linspace(-1, 1, 128).reshape(16, 8)
        self.first = nn.Parameter(both[:8])
        self.second = nn.Parameter(both[8:])

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.first @ self.second


@case
def weights_of_one_storage() -> tuple[nn.Module, Inputs]:
    return ViewedWeights(), (X,)


class CallsForwardDirectly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.outer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer.forward(self.inner.forward(x))


@case
def forward_called_directly() -> tuple[nn.Module, Inputs]:
    return CallsForwardDirectly(), (X,)


class MakesModuleInForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        created = nn.Sequential(nn.LayerNorm(8), nn.ReLU())
        return created(self.first(x))


@case
def module_made_in_forward() -> tuple[nn.Module, Inputs]:
    return MakesModuleInForward(), (X,)


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)

    def forward(self, x: Tensor, depth: int = 3) -> Tensor:
        x = self.step(x)
        return x if depth == 0 else self(x, depth - 1)


@case
def recursion() -> tuple[nn.Module, Inputs]:
    return Recursive(), (X,)


class MostlyUncalled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(8, 8)
        self.unused = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        self.functional = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.used(x), self.functional.weight, self.functional.bias)


@case
def uncalled_modules() -> tuple[nn.Module, Inputs]:
    return MostlyUncalled(), (X,)


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.heads = nn.ModuleDict({"left": nn.Linear(8, 2), "right": nn.Linear(8, 3)})
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(8)) for _ in range(3))
        self.named = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(8))})

    def forward(self, x: Tensor) -> Tensor:
        for block, gain in zip(self.blocks, self.gains, strict=True):
            x = block(x) * gain + self.named["bias"]
        return torch.cat([head(x) for head in self.heads.values()], dim=-1)


@case
def containers() -> tuple[nn.Module, Inputs]:
    return Containers(), (X,)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Sequential(nn.Linear(8, 8), nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.second, self.first(x), use_reentrant=False)


@case
def checkpointed() -> tuple[nn.Module, Inputs]:
    return Checkpointed(), (X,)


class FunctionalCall(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        doubled = {name: 2 * value for name, value in self.inner.named_parameters()}
        return torch.func.functional_call(self.inner, doubled, (x,))


@case
def functional_call() -> tuple[nn.Module, Inputs]:
    return FunctionalCall(), (X,)


class Mapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.vmap(self.inner)(x).sum(0)


@case
def vmapped() -> tuple[nn.Module, Inputs]:
    return Mapped(), (X,)
