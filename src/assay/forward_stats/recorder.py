"""Recording: the context in which every call of every module of a model is described and timed.

    with record_forward_stats(model) as recording:
        model(x)
    model.layers[0].forward_stats[-1].out_std, recording.first_nonfinite

Clocks are read around the call itself; what describing took is known for every call and taken off the calls
around it, on the host and on the accelerator alike.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any

from torch import nn

from assay.errors import UsageError
from assay.forward_stats import tensors
from assay.forward_stats.call_list import ATTRIBUTE, CallList, prepared
from assay.forward_stats.device_clock import DeviceClock, clock_for
from assay.forward_stats.interception import OpenCall, recorded, running
from assay.forward_stats.reading import TensorReader
from assay.forward_stats.results import ForwardStats, TensorStats
from assay.forward_stats.values import SWITCHED_OFF
from assay.recorder.intercept import observing
from assay.sources.holders import named_modules

_MOST_WAITING = 16_384
"""Tensors whose values may stay on a device before they are all fetched; each holds half a kilobyte there."""

_clock = time.perf_counter_ns
_calls = itertools.count()
_passes = itertools.count()


def record_forward_stats(model: object, values: bool = True, keep: int | None = None) -> ForwardRecorder:
    """A context in which every call of every module of `model` is kept in its `forward_stats`, newest last.

    Args:
        model: A module, or an object that holds several.
        values: Look at the values of tensors; False records shapes and times only.
        keep: How many calls of each module to keep; None keeps all.
    """
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise UsageError(f"keep is how many calls to keep, 1 or more, or None for all; got {keep!r}")
    modules = list(named_modules(model))
    if not modules:
        raise UsageError(f"a {type(model).__name__} holds no modules; give a torch.nn.Module or what holds some")
    return ForwardRecorder(modules, values, keep)


class ForwardRecorder:
    """Records while it is entered; afterwards tells which call was the first to produce a NaN or an infinity."""

    def __init__(self, modules: list[tuple[str, nn.Module]], values: bool, keep: int | None) -> None:
        self._modules = modules
        self._root = modules[0][1] if not modules[0][0] else None
        self._keep = keep
        self._reader = TensorReader() if values else None
        self._pass = next(_passes)
        self._seats: list[tuple[nn.Module, CallList]] = []
        self._stack = contextlib.ExitStack()
        self._device: DeviceClock | None = None
        self._unjudged: list[ForwardStats] = []
        self._first_nan: ForwardStats | None = None
        self._first_inf: ForwardStats | None = None

    @property
    def first_nan(self) -> ForwardStats | None:
        """The first call that gave out a NaN and had got none; its `module_path` says where."""
        self._judge()
        return self._first_nan

    @property
    def first_inf(self) -> ForwardStats | None:
        """The first call that gave out an infinity and had got neither infinity nor NaN."""
        self._judge()
        return self._first_inf

    @property
    def first_nonfinite(self) -> ForwardStats | None:
        """The earlier of `first_nan` and `first_inf`."""
        found = [call for call in (self.first_nan, self.first_inf) if call is not None]
        return min(found, key=lambda call: call.index, default=None)

    def __enter__(self) -> ForwardRecorder:
        if not self._modules:
            raise UsageError("a recording is entered once; call record_forward_stats again")
        lists = [prepared(module, path) for path, module in self._modules]
        self._device = clock_for(module for _, module in self._modules)
        self._stack.enter_context(observing(recorded))
        try:
            for (path, module), calls in zip(self._modules, lists, strict=True):
                self._sit(path, module, calls)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._leave()
        finally:
            self._settle()

    def adopt(self, path: str, module: nn.Module) -> CallList:
        """The list of a module that came to the model while it ran."""
        return self._sit(path, module, CallList())

    def run(
        self,
        path: str,
        calls: CallList,
        module: nn.Module,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What the call returns; a record of it is added to `calls`."""
        began = _clock()
        stack = running()
        depth = len(stack)
        outer = stack[-1] if stack else None
        device = self._device.begin(outer.clock if outer else None) if self._device else None
        record = ForwardStats(path, self._described(tensors.of_arguments, args, kwargs))
        record.device_clock = device
        inner = OpenCall(self, module, record, device)
        self._place(inner, outer, stack)
        try:
            stack.append(inner)
            if device is not None:
                device.mark()
            started = _clock()
            try:
                result = original(module, *args, **kwargs)
                ended = _clock()
            except BaseException as error:
                ended = _clock()
                record.error = type(error).__name__
                self._end(inner, outer, calls, (began, started, ended), None)
                raise
            self._end(inner, outer, calls, (began, started, ended), result)
            return result
        finally:
            del stack[depth:]

    def _sit(self, path: str, module: nn.Module, calls: CallList) -> CallList:
        self._seats.append((module, calls))
        module.__dict__[ATTRIBUTE] = calls
        calls.recorders.append((self, path))
        return calls

    def _leave(self) -> None:
        self._stack.close()
        for module, calls in self._seats:
            calls.recorders[:] = [seat for seat in calls.recorders if seat[0] is not self]
            if not calls and not calls.recorders:
                module.__dict__.pop(ATTRIBUTE, None)
        # What was recorded must not keep the model alive.
        self._seats, self._modules = [], []
        self._root = None

    def _place(self, inner: OpenCall, outer: OpenCall | None, stack: list[OpenCall]) -> None:
        """Where among the other calls this one stands."""
        record = inner.record
        if outer is not None:
            record.pass_index = outer.record.pass_index
            for each in stack:
                if each.module is inner.module:
                    record.recursive = True
            return
        record.outermost = True
        record.pass_index = next(_passes) if inner.module is self._root else self._pass

    def _end(
        self,
        inner: OpenCall,
        outer: OpenCall | None,
        calls: CallList,
        times: tuple[int, int, int],
        result: Any,
    ) -> None:
        began, started, ended = times
        record, device = inner.record, inner.clock
        if device is not None:
            device.mark()
        record.time_ns = ended - started - inner.added_ns
        record.self_time_ns = record.time_ns - inner.children_ns
        record.calls_inside = inner.calls
        record.outputs = self._described(tensors.of_result, result)
        record.index = next(_calls)
        calls.append(record)
        if self._keep is not None and len(calls) > self._keep:
            del calls[: -self._keep]
        self._note(record)
        if device is not None:
            device.end()
        if outer is None:
            if self._reader is not None:
                self._reader.forget()
            return
        outer.calls += inner.calls + 1
        outer.children_ns += record.time_ns
        outer.added_ns += inner.added_ns + (started - began) + (_clock() - ended)

    def _described(self, find: Callable[..., tensors.NamedTensors], *given: Any) -> tuple[TensorStats, ...]:
        """The tensors among what was given, each with its values; empty where that cannot be looked at."""
        reader = self._reader
        try:
            found = find(*given)
            if reader is None:
                return tuple([TensorStats(path, tensor, SWITCHED_OFF) for path, tensor in found])
            return tuple([TensorStats(path, tensor, reader.read(tensor)) for path, tensor in found])
        except Exception:  # noqa: BLE001  someone's container or tensor raised; their call must go on
            return ()

    def _note(self, record: ForwardStats) -> None:
        if self._reader is None or not self._reader.doubtful:
            return
        self._unjudged.append(record)
        if len(self._reader.queue) > _MOST_WAITING:
            self._settle()
        elif not len(self._reader.queue):
            self._judge()

    def _judge(self) -> None:
        """Look for the first NaN and infinity among the calls that ended since it was last looked."""
        taken, self._unjudged = self._unjudged, []
        for record in taken:
            if self._first_nan is None and record.nan and record.produced_nan:
                self._first_nan = record
            if self._first_inf is None and record.inf and record.produced_inf:
                self._first_inf = record

    def _settle(self) -> None:
        """Fetch all that is still on a device."""
        if self._reader is not None:
            self._reader.queue.resolve()
            self._judge()
        if self._device is not None:
            self._device.resolve()
