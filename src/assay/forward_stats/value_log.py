"""The values of one recorded pass: statistics of the output of every op and of every module.

Nothing of a tensor is kept. On an accelerator, statistics stay there as short vectors until many can be fetched at
once, so that the pass does not wait for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn

from assay.forward_stats import tensors
from assay.forward_stats.activation_maps import MapLog
from assay.forward_stats.on_device import Pending
from assay.forward_stats.reading import TensorReader, values_of
from assay.forward_stats.saturation import at_ends, channel_dim, rectifies
from assay.forward_stats.values import ValueStats
from assay.recorder.intercept import Method
from assay.recorder.kinds import tensors_in

_MAX_WAITING = 16_384
"""Tensors whose statistics may wait on a device before all are fetched."""

_PLAIN = {torch.Tensor, nn.Parameter}

Stats = ValueStats | Pending


class TensorReading(NamedTuple):
    """The statistics of one tensor, some of which may still be on a device; shares are the means of booleans."""

    numel: int
    dtype: torch.dtype
    values: Stats
    nan: Stats | None = None
    inf: Stats | None = None
    zeros: Stats | None = None
    at_ends: Stats | None = None
    alive: torch.Tensor | None = None
    """For each channel, whether it has a value other than zero; on the device of the tensor."""


class OpReading(NamedTuple):
    """One executed op: its outputs, and what it read if they may have NaN or infinite values."""

    outputs: tuple[TensorReading, ...]
    inputs: tuple[Stats | None, ...] | None
    """None for tensors that are not floating-point; None as a whole if all outputs are known to be finite."""
    by_request: bool
    """Whether NaN or an infinity was among its arguments, as in `masked_fill(mask, -inf)`."""


class CallReading(NamedTuple):
    """One finished call of a module."""

    module: nn.Module
    outputs: tuple[TensorReading, ...]


class ValueLog:
    """Runs the ops of a pass, and observes calls of modules, reading what they return."""

    def __init__(self, maps: MapLog | None = None) -> None:
        self.maps = maps
        self.ops: list[OpReading] = []
        self.calls: list[CallReading] = []
        self._reader = TensorReader()

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The op's result; an `OpCaller` of the recorder."""
        traits = _traits(func)
        inputs = self._inputs(args, kwargs) if traits.writes else None
        result = func(*args, **kwargs)
        try:
            self.ops.append(self._op(traits, args, kwargs, result, inputs))
        except Exception:  # noqa: BLE001  a tensor subclass lacks an op; the model's pass must not fail because of it
            self.ops.append(OpReading((), None, False))
        self._fetch_many()
        return result

    def observer(self, original: Method, replaced: Sequence[Method]) -> Method:
        """`original` wrapped so that the outputs of each call are read."""
        log, is_compiling = self, torch.compiler.is_compiling

        def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(self, *args, **kwargs)
            if replaced:
                return replaced[0](self, *args, **kwargs)
            result = original(self, *args, **kwargs)
            log.read_call(self, result)
            return result

        return __call__

    def fetch(self) -> None:
        """Fetch all statistics that are still on a device."""
        self._reader.queue.resolve()

    def _op(
        self, traits: _Traits, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, inputs: Any
    ) -> OpReading:
        floats = [each for each in tensors_in(result) if each.is_floating_point()] if traits.computes else []
        outputs = tuple([self._reading(traits, each, args) for each in floats])
        if all(_finite(each.values) for each in outputs):
            return OpReading(outputs, None, False)
        return OpReading(outputs, inputs or self._inputs(args, kwargs), _has_nonfinite_number((args, kwargs)))

    def read_call(self, module: nn.Module, result: Any) -> None:
        """Read what a call of `module` returned."""
        try:
            # The recorder's mode is active here, and a tensor subclass cannot run ops while modes are disabled.
            floats = [each for _, each in tensors.of_result(result) if _is_plain(each) and each.is_floating_point()]
            self.calls.append(CallReading(module, tuple([self._plain(each) for each in floats])))
        except Exception:  # noqa: BLE001  a user's container raised; the model's pass must not fail because of it
            self.calls.append(CallReading(module, ()))
            return
        if self.maps is not None and floats:
            self.maps.read(module, floats[0])

    def _inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Stats | None, ...]:
        """Statistics of all tensors among the arguments; most were read before, as outputs."""
        given = tensors_in((*args, *kwargs.values()))
        return tuple([self._reader.read(each) if each.is_floating_point() else None for each in given])

    def _reading(self, traits: _Traits, tensor: torch.Tensor, args: tuple[Any, ...]) -> TensorReading:
        # A write counts as one only after the op has returned, so a remembered value would be that before the write.
        reading = self._plain(tensor, remember=not traits.writes)
        if not reading.numel or not _is_plain(tensor):
            return reading
        ends = at_ends(traits.name, tensor, args)
        if ends is not None:
            reading = reading._replace(at_ends=self._share(ends))
        if rectifies(traits.name, args):
            reading = reading._replace(zeros=self._share(tensor == 0), alive=_alive(tensor))
        return reading

    def _plain(self, tensor: torch.Tensor, *, remember: bool = True) -> TensorReading:
        values = self._reader.read(tensor) if remember else values_of(tensor, self._reader.queue)
        reading = TensorReading(tensor.numel(), tensor.dtype, values)
        if _finite(values) or not _is_plain(tensor):
            return reading
        with torch.no_grad():
            return reading._replace(nan=self._share(tensor.isnan()), inf=self._share(tensor.isinf()))

    def _share(self, mask: torch.Tensor) -> Stats:
        return values_of(mask, self._reader.queue)

    def _fetch_many(self) -> None:
        if len(self._reader.queue) > _MAX_WAITING:
            self.fetch()


class _Traits(NamedTuple):
    """What the log needs to know about an op."""

    name: str
    """Without namespace, overload and trailing underscore: `relu`."""
    writes: bool
    """Whether it writes into its arguments."""
    computes: bool
    """Whether its output is new values, not a view or uninitialised memory."""


@cache
def _traits(func: Any) -> _Traits:
    schema = getattr(func, "_schema", None)
    if schema is None:
        return _Traits("", True, True)
    name = schema.name.partition("::")[2].rstrip("_")
    is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)
    return _Traits(name, schema.is_mutable, not is_view and "empty" not in name)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is one strided block of values, for which all ops exist."""
    return tensor.__class__ in _PLAIN and tensor.layout is torch.strided and not tensor.is_nested


def _finite(values: Stats) -> bool:
    """Whether all values are known to be finite, or are unknown for good."""
    return isinstance(values, ValueStats) and not values.nan and not values.inf


def _has_nonfinite_number(values: Any) -> bool:
    """Whether there is NaN or an infinity among the numbers in nested arguments."""
    return any(not math.isfinite(each) for each in _floats(values))


def _floats(values: Any) -> Iterator[float]:
    if isinstance(values, float):
        yield values
    elif isinstance(values, (list, tuple, dict)):
        items: Iterable[Any] = values.values() if isinstance(values, dict) else values
        for each in items:
            yield from _floats(each)


def _alive(tensor: torch.Tensor) -> torch.Tensor | None:
    dim = channel_dim(tensor)
    if dim is None:
        return None
    others = [each for each in range(tensor.dim()) if each != dim]
    return (tensor != 0).any(dim=others)
