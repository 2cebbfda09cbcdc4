"""Hard state: forward passes with side effects, and modules with unusual attributes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from models.registry import Inputs, case, failing

X = torch.linspace(-1, 1, 16).reshape(2, 8)


@case
def batch_norm_in_training() -> tuple[nn.Module, Inputs]:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    return model.train(), (torch.linspace(-1, 1, 96).reshape(2, 3, 4, 4),)


@case
def dropout_in_training() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.AlphaDropout(0.1)).train(), (X,)


@case
def mixed_training_flags() -> tuple[nn.Module, Inputs]:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).train()
    model[1].eval()
    model[0].weight.requires_grad_(False)
    return model, (X,)


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        y += 1
        y[:, :2] = 0
        y[:, 2:4].mul_(3)
        y = y.detach()
        out = torch.empty_like(y)
        torch.add(y, 1, out=out)
        return out.relu_()


@case
def in_place() -> tuple[nn.Module, Inputs]:
    return InPlace(), (X,)


class WritesItsInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        return self.inner(x)


@case
def writes_its_input() -> tuple[nn.Module, Inputs]:
    return WritesItsInput(), (X.clone(),)


class Mutates(nn.Module):
    """Counts its calls in an attribute, a list, a buffer and a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("unsaved", torch.zeros(8), persistent=False)
        self.calls = 0
        self.history: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen += x.shape[0]
        self.unsaved = self.unsaved + x.mean(0)
        self.history.append(1.0)
        with torch.no_grad():
            self.inner.bias.add_(1)
        return self.inner(x)


@case
def mutates_itself() -> tuple[nn.Module, Inputs]:
    return Mutates(), (X,)


class Cache(nn.Module):
    """Creates a tensor on its first call and reuses it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.cache: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.cache is None:
            self.cache = torch.arange(8.0)
        return self.inner(x + self.cache)


@case
def caches_on_first_call() -> tuple[nn.Module, Inputs]:
    return Cache(), (X,)


class Prints(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        print("shape", tuple(x.shape))  # noqa: T201  the case is about printing
        return self.inner(x)


@case
def prints() -> tuple[nn.Module, Inputs]:
    return Prints(), (X,)


class ThrowingProperty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    @property
    def loss(self) -> Tensor:
        raise RuntimeError("no loss before training")

    def __repr__(self) -> str:
        raise RuntimeError("no text for this module")

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


@case
def throwing_property() -> tuple[nn.Module, Inputs]:
    return ThrowingProperty(), (X,)


class Forwards(nn.Module):
    """Looks up unknown attributes in the module that it wraps."""

    def __init__(self) -> None:
        super().__init__()
        self.wrapped = nn.Linear(8, 8)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("wrapped"), name)

    def __len__(self) -> int:
        return 0

    def forward(self, x: Tensor) -> Tensor:
        return self.wrapped(x) * self.in_features


@case
def getattr_tricks() -> tuple[nn.Module, Inputs]:
    return Forwards(), (X,)


class OddAttributes(nn.Module):
    """Has itself, a lambda and a huge list as attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.__dict__["me"] = self
        self.scale = lambda t: t * 2
        self.table = list(range(100_000))
        self.plain_tensor = torch.ones(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(self.inner(x)) + self.plain_tensor


@case
def odd_attributes() -> tuple[nn.Module, Inputs]:
    return OddAttributes(), (X,)


@case
def parametrized() -> tuple[nn.Module, Inputs]:
    weight = parametrizations.weight_norm(nn.Linear(8, 8))
    spectral = parametrizations.spectral_norm(nn.Linear(8, 8))
    return nn.Sequential(weight, spectral, parametrizations.orthogonal(nn.Linear(8, 8))), (X,)


@case
def spectral_norm_in_training() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(parametrizations.spectral_norm(nn.Linear(8, 8))).train(), (X,)


@case
def lazy_modules() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.LazyLinear(6), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(2)), (X,)


@case
def has_gradients() -> tuple[nn.Module, Inputs]:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
    model(X).sum().backward()
    return model, (X,)


class RaisesMidway(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


@failing
def wrong_shape_midway() -> tuple[nn.Module, Inputs]:
    return RaisesMidway().train(), (X,)


class RaisesItself(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.inner(x)
        raise ValueError("this model always\nraises")


@failing
def raises_midway() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Linear(8, 8), RaisesItself()), (X,)


class EndlessRecursion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self(self.inner(x))


@failing
def endless_recursion() -> tuple[nn.Module, Inputs]:
    return EndlessRecursion(), (X,)
