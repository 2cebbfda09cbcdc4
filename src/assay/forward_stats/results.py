"""The record of a call: its tensors, its times and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from assay.forward_stats.device_clock import CallClock
from assay.forward_stats.on_device import Pending
from assay.forward_stats.values import Number, ValueStats
from assay.recorder.inventory import sizes

_PLAIN = {torch.Tensor, torch.nn.Parameter}


class TensorStats:
    """One tensor at the time of a call; unknown statistics are None, and `why` gives the reason."""

    __slots__ = ("_values", "device", "dtype", "has_grad", "memory_bytes", "path", "requires_grad", "shape")

    def __init__(self, path: str, tensor: torch.Tensor, values: ValueStats | Pending) -> None:
        self.path = path
        """Its position in the call: `args[0]`, `kwargs.mask`, `out.logits`."""
        plain = tensor.__class__ in _PLAIN and tensor.layout is torch.strided and not tensor.is_nested
        self.shape: tuple[int, ...] = tensor.shape if plain else sizes(tensor)
        """The shape; a ragged dimension is -1."""
        self.dtype: torch.dtype = tensor.dtype
        self.device: torch.device = tensor.device
        self.requires_grad: bool = tensor.requires_grad
        self.has_grad: bool = (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None
        """Whether the tensor had a gradient at the time of the call."""
        self.memory_bytes: int | None = tensor.nbytes if plain else _bytes(tensor)
        """Bytes of its elements; None for a sparse tensor on the meta device."""
        self._values = values

    @property
    def values(self) -> ValueStats:
        """All statistics; waits for the device if they have not been fetched yet."""
        if isinstance(self._values, Pending):
            self._values = self._values.get()
        return self._values

    @property
    def min(self) -> Number | None:
        """The smallest value; None if unknown."""
        return self.values.min

    @property
    def max(self) -> Number | None:
        """The largest value; None if unknown."""
        return self.values.max

    @property
    def mean(self) -> Number | None:
        """The mean, complex for complex tensors; None if unknown."""
        return self.values.mean

    @property
    def std(self) -> float | None:
        """The standard deviation, as computed by `tensor.std()`; None if unknown."""
        return self.values.std

    @property
    def nan(self) -> bool | None:
        """Whether there is a NaN; None if unknown."""
        return self.values.nan

    @property
    def inf(self) -> bool | None:
        """Whether there is an infinity; None if unknown."""
        return self.values.inf

    @property
    def why(self) -> str:
        """Why statistics are missing; empty if none are."""
        return self.values.why

    def __repr__(self) -> str:
        return f"<{self.path} {tuple(self.shape)} {str(self.dtype).removeprefix('torch.')} {self.device}>"


class _First:
    """An attribute of the first input or output tensor of a call; None if there is no tensor."""

    def __init__(self, side: str, name: str) -> None:
        self._side, self._name = side, name

    def __get__(self, call: ForwardStats | None, owner: type | None = None) -> Any:
        if call is None:
            return self
        tensors = getattr(call, self._side)
        return getattr(tensors[0], self._name) if tensors else None


class ForwardStats:
    """One call of a module: its input and output tensors and its time."""

    __slots__ = (
        "calls_inside",
        "device_clock",
        "error",
        "index",
        "inputs",
        "module_path",
        "outermost",
        "outputs",
        "pass_index",
        "recursive",
        "self_time_ns",
        "time_ns",
    )

    def __init__(self, module_path: str, inputs: tuple[TensorStats, ...]) -> None:
        self.module_path = module_path
        """The module's path; empty for the root."""
        self.inputs = inputs
        """The tensors in its arguments."""
        self.outputs: tuple[TensorStats, ...] = ()
        """The tensors in its result."""
        self.time_ns = 0
        """Nanoseconds on the host clock, without the time spent recording."""
        self.self_time_ns = 0
        """Nanoseconds without the calls inside it."""
        self.error = ""
        """The class name of the exception that ended it; empty if it succeeded."""
        self.index = -1
        """A number that increases in the order in which calls ended."""
        self.pass_index = -1
        """A number that all calls of one pass share."""
        self.outermost = False
        """Whether no other recorded call encloses it."""
        self.recursive = False
        """Whether it is inside another call of the same module."""
        self.calls_inside = 0
        """Number of recorded calls inside it, at any depth."""
        self.device_clock: CallClock | None = None

    in_shape = _First("inputs", "shape")
    in_dtype = _First("inputs", "dtype")
    in_device = _First("inputs", "device")
    in_min = _First("inputs", "min")
    in_max = _First("inputs", "max")
    in_mean = _First("inputs", "mean")
    in_std = _First("inputs", "std")
    in_requires_grad = _First("inputs", "requires_grad")
    in_has_grad = _First("inputs", "has_grad")
    in_memory_bytes = _First("inputs", "memory_bytes")
    out_shape = _First("outputs", "shape")
    out_dtype = _First("outputs", "dtype")
    out_device = _First("outputs", "device")
    out_min = _First("outputs", "min")
    out_max = _First("outputs", "max")
    out_mean = _First("outputs", "mean")
    out_std = _First("outputs", "std")
    out_requires_grad = _First("outputs", "requires_grad")
    out_has_grad = _First("outputs", "has_grad")
    out_memory_bytes = _First("outputs", "memory_bytes")

    @property
    def time_s(self) -> float:
        """Seconds on the host clock, without the time spent recording."""
        return self.time_ns * 1e-9

    @property
    def self_time_s(self) -> float:
        """Seconds on the host clock without the calls inside it."""
        return self.self_time_ns * 1e-9

    @property
    def device_time_s(self) -> float | None:
        """Seconds on the accelerator; None if it was not measured."""
        return None if self.device_clock is None else self.device_clock.read()[0]

    @property
    def device_self_time_s(self) -> float | None:
        """Seconds on the accelerator without the calls inside it; None if it was not measured."""
        return None if self.device_clock is None else self.device_clock.read()[1]

    @property
    def nan(self) -> bool | None:
        """Whether an output contains NaN; None if unknown."""
        return _any(self.outputs, "nan")

    @property
    def inf(self) -> bool | None:
        """Whether an output contains an infinity; None if unknown."""
        return _any(self.outputs, "inf")

    @property
    def produced_nan(self) -> bool | None:
        """Whether an output contains NaN and no input does; None if unknown."""
        return _and_not(self.nan, _any(self.inputs, "nan"))

    @property
    def produced_inf(self) -> bool | None:
        """Whether an output contains an infinity and no input contains an infinity or NaN; None if unknown."""
        return _and_not(_and_not(self.inf, _any(self.inputs, "inf")), _any(self.inputs, "nan"))

    def __repr__(self) -> str:
        name = self.module_path or "(root)"
        return f"<ForwardStats of {name}: {self.in_shape} -> {self.out_shape}, {self.time_s:.3g} s>"


def _any(tensors: tuple[TensorStats, ...], flag: str) -> bool | None:
    """Whether a tensor has the flag; None if none is known to have it and some are unknown."""
    flags = [getattr(tensor, flag) for tensor in tensors]
    return True if True in flags else None if None in flags else False


def _and_not(this: bool | None, other: bool | None) -> bool | None:
    """`this and not other`; None if the result is unknown."""
    if this is False or other is True:
        return False
    return None if this is None or other is None else True


def _bytes(tensor: torch.Tensor) -> int | None:
    """Bytes of the elements, or of the stored parts of a sparse tensor; None for a sparse one on the meta device."""
    if tensor.layout not in _PARTS:
        return int(tensor.numel() * tensor.element_size())
    parts = _PARTS[tensor.layout]
    stored = tensor.detach()
    return None if tensor.is_meta else sum(part(stored).numel() * part(stored).element_size() for part in parts)


_ROWS = (torch.Tensor.crow_indices, torch.Tensor.col_indices, torch.Tensor.values)
_COLUMNS = (torch.Tensor.ccol_indices, torch.Tensor.row_indices, torch.Tensor.values)
_PARTS: dict[torch.layout, tuple[Callable[[torch.Tensor], torch.Tensor], ...]] = {
    torch.sparse_coo: (torch.Tensor._indices, torch.Tensor._values),
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}
"""The functions that return the stored parts of a sparse tensor, by layout."""
