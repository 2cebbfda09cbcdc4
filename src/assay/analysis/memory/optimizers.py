"""What each optimizer keeps for a parameter. Adding one is one entry.

A rule gives the bytes of state for one trained parameter, in the dtype that the optimizer works in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from msgspec import Struct

from assay.analysis.memory.weights import TrainedParameter
from assay.document.dtypes import BITS, nbytes
from assay.document.provenance import Counted, Figure, Modelled
from assay.errors import UsageError

StateRule = Callable[[TrainedParameter], int]

_STEP = 4
"""Torch counts steps in one float32 a parameter."""
_MASTER = "float32"


class Optimizer(Struct, frozen=True):
    """An optimizer and what it keeps."""

    state: str
    """In words."""
    rule: StateRule
    approximation: str = ""
    """Where torch has no such optimizer, or the state depends on more than shapes: what was taken."""


class OptimizerState(Struct, frozen=True, omit_defaults=True):
    """What an optimizer keeps for a whole model."""

    name: str
    state: str
    bytes: Figure
    bytes_per_parameter: float | None
    """Over all trained numbers, master weights included."""
    master: Figure
    """Copies of narrower parameters in float32."""


def _copies(count: int, scalars: int = 0) -> StateRule:
    """So many tensors like the parameter, and so many single float32 numbers."""
    return lambda parameter: count * parameter.bytes + scalars * _STEP


def _factored(parameter: TrainedParameter) -> int:
    """A row and a column of the last two dimensions; all of it where there is one dimension."""
    if len(parameter.shape) < 2:
        return parameter.bytes + _STEP
    *outer, rows, columns = parameter.shape
    return nbytes(prod(outer) * (rows + columns), parameter.dtype) + _STEP


_BLOCK = 256
_SMALLEST_IN_8_BITS = 4096


def _two_in_8_bits(parameter: TrainedParameter) -> int:
    """Two bytes a number and a float32 scale for each block of each; small tensors stay in float32."""
    if parameter.elements < _SMALLEST_IN_8_BITS:
        return 2 * 4 * parameter.elements
    blocks = -(-parameter.elements // _BLOCK)
    return 2 * (parameter.elements + 4 * blocks)


def _momentum_or_adamw(parameter: TrainedParameter) -> int:
    """Momentum for matrices, AdamW for everything else."""
    return parameter.bytes if len(parameter.shape) >= 2 else 2 * parameter.bytes + _STEP


OPTIMIZERS: Mapping[str, Optimizer] = {
    "sgd": Optimizer("nothing", _copies(0)),
    "sgd-momentum": Optimizer("momentum", _copies(1)),
    "adam": Optimizer("two moments, a step count", _copies(2, 1)),
    "adamw": Optimizer("two moments, a step count", _copies(2, 1)),
    "adam-amsgrad": Optimizer("two moments, the largest second moment, a step count", _copies(3, 1)),
    "adamax": Optimizer("first moment, infinity norm, a step count", _copies(2, 1)),
    "nadam": Optimizer("two moments, a step count, a momentum product", _copies(2, 2)),
    "radam": Optimizer("two moments, a step count", _copies(2, 1)),
    "adagrad": Optimizer("sum of squares, a step count", _copies(1, 1)),
    "adadelta": Optimizer("mean square, mean update, a step count", _copies(2, 1)),
    "rmsprop": Optimizer("mean square, a step count", _copies(1, 1)),
    "rmsprop-momentum": Optimizer("mean square, momentum, a step count", _copies(2, 1)),
    "adafactor": Optimizer(
        "a row and a column of second moments, a step count",
        _factored,
        "as torch.optim.Adafactor keeps it: no first moment; one-dimensional parameters keep the whole second moment",
    ),
    "lion": Optimizer("momentum", _copies(1), "momentum in the parameter's dtype"),
    "lamb": Optimizer("two moments, a step count", _copies(2, 1), "as Adam; the layer-wise ratios are not kept"),
    "adam8bit": Optimizer(
        "two moments in 8 bits, a scale for every 256 of each",
        _two_in_8_bits,
        "blocks of 256; parameters under 4096 numbers keep float32 moments",
    ),
    "muon": Optimizer(
        "momentum for matrices, AdamW's state for the rest",
        _momentum_or_adamw,
        "every parameter of two or more dimensions counts as a matrix, embeddings and heads too",
    ),
}


def optimizer_named(name: str) -> Optimizer:
    """The optimizer called `name`."""
    found = OPTIMIZERS.get(name)
    if found is None:
        raise UsageError(f"no optimizer is called {name!r}: say {', '.join(OPTIMIZERS)}")
    return found


def state_of(name: str, parameters: Sequence[TrainedParameter], *, master_weights: bool = False) -> OptimizerState:
    """What the optimizer called `name` keeps for `parameters`.

    With master weights it works on float32 copies of whatever is narrower, and its state is float32 too.
    """
    optimizer = optimizer_named(name)
    narrow = [parameter for parameter in parameters if master_weights and _is_narrow(parameter)]
    worked_on = [
        TrainedParameter(parameter.shape, _MASTER) if master_weights and _is_narrow(parameter) else parameter
        for parameter in parameters
    ]
    size = sum(optimizer.rule(parameter) for parameter in worked_on)
    master = sum(nbytes(parameter.elements, _MASTER) for parameter in narrow)
    elements = sum(parameter.elements for parameter in parameters)
    return OptimizerState(
        name=name,
        state=optimizer.state,
        bytes=Figure(size, _provenance(name, optimizer)),
        bytes_per_parameter=(size + master) / elements if elements else None,
        master=Figure(master, Counted("4 bytes for each trained number in a narrower dtype")),
    )


def _is_narrow(parameter: TrainedParameter) -> bool:
    return BITS.get(parameter.dtype, 32) < BITS[_MASTER]


def _provenance(name: str, optimizer: Optimizer) -> Counted | Modelled:
    if optimizer.approximation:
        return Modelled(f"the state of {name}: {optimizer.state}", (optimizer.approximation,))
    return Counted(f"the state torch keeps for {name}: {optimizer.state}")
