"""Hard values: inputs and outputs of modules that are not plain tensors."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from models.registry import Inputs, case

X = torch.linspace(-1, 1, 16).reshape(2, 8)


@dataclass
class Output:
    logits: Tensor
    hidden: list[Tensor]
    loss: Tensor | None = None


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


Loose = namedtuple("Loose", ["value", "extra"])


class Returns(nn.Module):
    """Returns `wrap(y)` for the output `y` of an inner linear layer."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.wrap = wrap

    def forward(self, x: Tensor) -> Any:
        return self.wrap(self.inner(x))


class Around(nn.Module):
    """Calls an inner module with an unusual return value, and returns it with another output."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.body = Returns(wrap)
        self.head = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        odd = self.body(x)
        return odd, self.head(x)


@case
def returns_dataclass() -> tuple[nn.Module, Inputs]:
    return Around(lambda y: Output(y, [y, y + 1])), (X,)


@case
def returns_namedtuple() -> tuple[nn.Module, Inputs]:
    return Around(lambda y: Loose(Pair(y, -y), 3)), (X,)


@case
def returns_nested_dict() -> tuple[nn.Module, Inputs]:
    return Around(lambda y: {"a": {"b": [y, (y * 2,)]}, 3: "text", "none": None}), (X,)


@case
def returns_none() -> tuple[nn.Module, Inputs]:
    return Around(lambda y: None), (X,)


@case
def returns_generator() -> tuple[nn.Module, Inputs]:
    return Around(lambda y: (row for row in y)), (X,)


@case
def returns_its_input() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(nn.Identity(), nn.Identity()), (X,)


class KeywordsOnly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, *, x: Tensor, scale: float = 1.0, bias: Tensor | None = None) -> Tensor:
        y = self.inner(input=x) * scale
        return y if bias is None else y + bias


@case
def keywords_only() -> tuple[nn.Module, Inputs]:
    return KeywordsOnly(), {"x": X, "scale": 2.0}


class PlainArguments(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor, scale: float, activation: str, flag: bool, nothing: None) -> Tensor:
        return getattr(torch, activation)(self.inner(x)) * scale if flag else x


@case
def float_and_str_arguments() -> tuple[nn.Module, Inputs]:
    return PlainArguments(), (X, 0.5, "tanh", True, None)


class ListAndDict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, rows: list[Tensor], named: dict[str, Tensor]) -> dict[str, Tensor]:
        total = torch.stack(rows).sum(0)
        return {name: self.inner(value + total) for name, value in named.items()}


@case
def list_and_dict_inputs() -> tuple[nn.Module, Inputs]:
    return ListAndDict(), {"rows": [X, X + 1], "named": {"a": X, "b": -X}}


class ComplexNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.complex(torch.ones(8, 8), torch.zeros(8, 8)))

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(torch.complex(x, -x) @ self.weight).sum(-1)


@case
def complex_numbers() -> tuple[nn.Module, Inputs]:
    return ComplexNumbers(), (X,)


class Fourier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=8)


@case
def fourier() -> tuple[nn.Module, Inputs]:
    return Fourier(), (X,)


class SparseGraph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, adjacency: Tensor, x: Tensor) -> Tensor:
        return torch.sparse.mm(adjacency, self.inner(x))


@case
def sparse_matrix() -> tuple[nn.Module, Inputs]:
    indices = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    adjacency = torch.sparse_coo_tensor(indices, torch.ones(4), (4, 4), check_invariants=False)
    return SparseGraph(), (adjacency, torch.ones(4, 8))


class Jagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 4)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        jagged = torch.nested.nested_tensor([first, second], layout=torch.jagged)
        return self.inner(jagged).values().sum(0)


@case
def nested_jagged() -> tuple[nn.Module, Inputs]:
    return Jagged(), (torch.ones(3, 8), torch.ones(5, 8))


class PackedLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed: PackedSequence = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        return pad_packed_sequence(out, batch_first=True)[0]


@case
def packed_sequence() -> tuple[nn.Module, Inputs]:
    return PackedLstm(), (torch.ones(3, 5, 8), torch.tensor([5, 2, 3]))


class NoTensors(nn.Module):
    def forward(self) -> int:
        return 3


@case
def no_tensors_at_all() -> tuple[nn.Module, Inputs]:
    return NoTensors(), ()


class Empty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x[:0]).sum() + torch.tensor(1.0)


@case
def empty_and_scalar_tensors() -> tuple[nn.Module, Inputs]:
    return Empty(), (X,)
