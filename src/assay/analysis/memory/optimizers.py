"""The state that each optimizer keeps. To add an optimizer, add one entry to `OPTIMIZERS`.

A rule returns the bytes of state for one trained parameter, in the dtype that the optimizer works in.
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
"""Torch keeps the step count as one float32 per parameter."""
_MASTER = "float32"


class Optimizer(Struct, frozen=True):
    """An optimizer and the state it keeps per parameter."""

    state: str
    """A description of the state."""
    rule: StateRule
    approximation: str = ""
    """What is assumed, if torch has no such optimizer or the state depends on more than shapes."""


class OptimizerState(Struct, frozen=True, omit_defaults=True):
    """The optimizer state of a whole model."""

    name: str
    state: str
    bytes: Figure
    bytes_per_parameter: float | None
    """Mean over all trained elements, including master weights."""
    master: Figure
    """Bytes of the float32 copies of narrower parameters."""


def _copies(count: int, scalars: int = 0) -> StateRule:
    """A rule for `count` tensors like the parameter and `scalars` single float32 numbers."""
    return lambda parameter: count * parameter.bytes + scalars * _STEP


def _factored(parameter: TrainedParameter) -> int:
    """One row and one column of the last two dimensions; the whole tensor if it has fewer than two dimensions."""
    if len(parameter.shape) < 2:
        return parameter.bytes + _STEP
    *outer, rows, columns = parameter.shape
    return nbytes(prod(outer) * (rows + columns), parameter.dtype) + _STEP


_BLOCK = 256
_SMALLEST_IN_8_BITS = 4096


def _two_in_8_bits(parameter: TrainedParameter) -> int:
    """Two moments, each with one byte per element and one float32 scale per block; in float32 for small tensors."""
    if parameter.elements < _SMALLEST_IN_8_BITS:
        return 2 * 4 * parameter.elements
    blocks = -(-parameter.elements // _BLOCK)
    return 2 * (parameter.elements + 4 * blocks)


def _momentum_or_adamw(parameter: TrainedParameter) -> int:
    """Momentum for matrices, AdamW's state for all other parameters."""
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
        "one row and one column of second moments, a step count",
        _factored,
        "like torch.optim.Adafactor: no first moment; one-dimensional parameters keep the whole second moment",
    ),
    "lion": Optimizer("momentum", _copies(1), "momentum in the parameter's dtype"),
    "lamb": Optimizer("two moments, a step count", _copies(2, 1), "like Adam; layer-wise ratios are not stored"),
    "adam8bit": Optimizer(
        "two 8-bit moments, each with one scale per 256 elements",
        _two_in_8_bits,
        "blocks of 256; parameters with fewer than 4096 elements keep float32 moments",
    ),
    "muon": Optimizer(
        "momentum for matrices, AdamW's state for the rest",
        _momentum_or_adamw,
        "every parameter with two or more dimensions counts as a matrix, including embeddings and heads",
    ),
}


def optimizer_named(name: str) -> Optimizer:
    """The optimizer called `name`."""
    optimizer = OPTIMIZERS.get(name)
    if optimizer is None:
        raise UsageError(f"unknown optimizer {name!r}: expected one of {', '.join(OPTIMIZERS)}")
    return optimizer


def state_of(name: str, parameters: Sequence[TrainedParameter], *, master_weights: bool = False) -> OptimizerState:
    """The state that the optimizer called `name` keeps for `parameters`.

    With master weights, it works on float32 copies of narrower parameters, and its state is float32 too.
    """
    optimizer = optimizer_named(name)
    narrow = [parameter for parameter in parameters if master_weights and _is_narrow(parameter)]
    updated = [
        TrainedParameter(parameter.shape, _MASTER) if master_weights and _is_narrow(parameter) else parameter
        for parameter in parameters
    ]
    size = sum(optimizer.rule(parameter) for parameter in updated)
    master = sum(nbytes(parameter.elements, _MASTER) for parameter in narrow)
    elements = sum(parameter.elements for parameter in parameters)
    return OptimizerState(
        name=name,
        state=optimizer.state,
        bytes=Figure(size, _provenance(name, optimizer)),
        bytes_per_parameter=(size + master) / elements if elements else None,
        master=Figure(master, Counted("4 bytes per trained element of a narrower dtype")),
    )


def unknown_state(name: str, why: Figure) -> OptimizerState:
    """The state of the optimizer called `name` if the parameters it updates are unknown."""
    return OptimizerState(name, optimizer_named(name).state, why, None, why)


def _is_narrow(parameter: TrainedParameter) -> bool:
    return BITS.get(parameter.dtype, 32) < BITS[_MASTER]


def _provenance(name: str, optimizer: Optimizer) -> Counted | Modelled:
    if optimizer.approximation:
        return Modelled(f"state of {name}: {optimizer.state}", (optimizer.approximation,))
    return Counted(f"state of {name} in torch: {optimizer.state}")
