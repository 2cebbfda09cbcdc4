"""Recording: a context manager that records the tensors and time of every call of every module of a model.

    with record_forward_stats(model) as recording:
        model(x)
    model.layers[0].forward_stats[-1].out_std, recording.first_nonfinite

Clocks are read directly around each call. The time spent recording a call is subtracted from its enclosing calls,
both on the host and on the accelerator.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any

from torch import nn

from assay.display import Displayed
from assay.errors import UsageError
from assay.forward_stats import tensors
from assay.forward_stats.call_list import ATTRIBUTE, CallList, existing_or_new
from assay.forward_stats.device_clock import DeviceClock, clock_for
from assay.forward_stats.interception import OpenCall, recording_call, running
from assay.forward_stats.reading import TensorReader
from assay.forward_stats.results import ForwardStats, TensorStats
from assay.forward_stats.values import NO_VALUES
from assay.recorder.intercept import observing
from assay.sources.holders import named_modules

_MAX_WAITING = 16_384
"""Tensors whose statistics may wait on a device before all are fetched; each takes half a kilobyte there."""

_clock = time.perf_counter_ns
_calls = itertools.count()
_passes = itertools.count()


def record_forward_stats(model: object, values: bool = True, keep: int | None = None) -> ForwardRecorder:
    """Record every call of every module of `model` within a `with` block, in each module's `forward_stats` list.

    Args:
        model: A module, or an object that contains modules.
        values: Compute statistics of tensor values; False records only shapes and times.
        keep: The number of most recent calls to keep per module; None keeps all.

    Returns:
        A context manager. After the block, its `first_nan`, `first_inf` and `first_nonfinite` are the first calls
        that produced such values.

    Raises:
        UsageError: `keep` is not a positive integer, `model` contains no modules, or, on entering the block, a module
            already has an attribute `forward_stats`.
    """
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise UsageError(f"invalid keep {keep!r}: expected a number of calls of at least 1, or None to keep all")
    modules = list(named_modules(model))
    if not modules:
        raise UsageError(
            f"{type(model).__name__} contains no modules: give a torch.nn.Module or an object with modules"
        )
    return ForwardRecorder(modules, values, keep)


class ForwardRecorder(Displayed):
    """Records calls inside its `with` block; afterwards gives the first call that produced a NaN or an infinity."""

    def __init__(self, modules: list[tuple[str, nn.Module]], values: bool, keep: int | None) -> None:
        self._modules = modules
        self._root = modules[0][1] if not modules[0][0] else None
        self._keep = keep
        self._reader = TensorReader() if values else None
        self._pass = next(_passes)
        self._recorded: list[tuple[nn.Module, CallList]] = []
        """The modules that this recorder was added to, with their call lists."""
        self._lists: list[CallList] = []
        """These call lists after the block."""
        self._began, self._ended = -1, -1
        """The indices of calls before and after the block; -1 if it has not begun or ended."""
        self._stack = contextlib.ExitStack()
        self._device: DeviceClock | None = None
        self._unchecked: list[ForwardStats] = []
        """Calls not yet searched for NaN and infinities."""
        self._first_nan: ForwardStats | None = None
        self._first_inf: ForwardStats | None = None

    @property
    def first_nan(self) -> ForwardStats | None:
        """The first call with NaN in an output and none in its inputs; None if there is none."""
        self._check()
        return self._first_nan

    @property
    def first_inf(self) -> ForwardStats | None:
        """The first call with infinity in an output and only finite inputs; None if there is none."""
        self._check()
        return self._first_inf

    @property
    def first_nonfinite(self) -> ForwardStats | None:
        """The earlier of `first_nan` and `first_inf`; None if both are None."""
        calls = [call for call in (self.first_nan, self.first_inf) if call is not None]
        return min(calls, key=lambda call: call.index, default=None)

    @property
    def calls(self) -> list[ForwardStats]:
        """The calls that it recorded and their modules still keep, in the order in which they ended."""
        lists = self._lists or [calls for _, calls in self._recorded]
        made = [call for calls in lists for call in calls if call.index > self._began]
        within = [call for call in made if self._ended < 0 or call.index < self._ended]
        return sorted(within, key=lambda call: call.index)

    def __enter__(self) -> ForwardRecorder:
        if not self._modules:
            raise UsageError("a recorder can be used only once: call record_forward_stats again")
        lists = [existing_or_new(module, path) for path, module in self._modules]
        self._began = next(_calls)
        self._device = clock_for(module for _, module in self._modules)
        self._stack.enter_context(observing(recording_call))
        try:
            for (path, module), calls in zip(self._modules, lists, strict=True):
                self._attach(path, module, calls)
        except BaseException:
            self._detach()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._detach()
        finally:
            self._fetch()

    def adopt(self, path: str, module: nn.Module) -> CallList:
        """Start recording a module that the model created while it ran; its new call list."""
        return self._attach(path, module, CallList())

    def run(
        self,
        path: str,
        calls: CallList,
        module: nn.Module,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call the module and return its result; a record of the call is added to `calls`."""
        began = _clock()
        stack = running()
        depth = len(stack)
        outer = stack[-1] if stack else None
        device = self._device.begin(outer.clock if outer else None) if self._device else None
        record = ForwardStats(path, self._described(tensors.of_arguments, args, kwargs))
        record.device_clock = device
        inner = OpenCall(self, module, record, device)
        self._classify(inner, outer, stack)
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

    def _attach(self, path: str, module: nn.Module, calls: CallList) -> CallList:
        """Add this recorder to the module's call list, and the list to the module."""
        self._recorded.append((module, calls))
        module.__dict__[ATTRIBUTE] = calls
        calls.recorders.append((self, path))
        return calls

    def _detach(self) -> None:
        """Remove this recorder from all modules, and `forward_stats` from modules that were not called."""
        self._stack.close()
        for module, calls in self._recorded:
            calls.recorders[:] = [(recorder, path) for recorder, path in calls.recorders if recorder is not self]
            if not calls and not calls.recorders:
                module.__dict__.pop(ATTRIBUTE, None)
        # The recorder must not keep the model alive.
        self._lists, self._ended = [calls for _, calls in self._recorded if calls], next(_calls)
        self._recorded, self._modules = [], []
        self._root = None

    def _classify(self, inner: OpenCall, outer: OpenCall | None, stack: list[OpenCall]) -> None:
        """Set the call's pass and whether it is outermost or recursive."""
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
        """Complete the record of a call that has ended, and add its time to the enclosing call."""
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

    def _described(self, find: Callable[..., tensors.NamedTensors], *values: Any) -> tuple[TensorStats, ...]:
        """The tensors that `find` returns for `values`, with their statistics; empty if reading them fails."""
        reader = self._reader
        try:
            named = find(*values)
            if reader is None:
                return tuple([TensorStats(path, tensor, NO_VALUES) for path, tensor in named])
            return tuple([TensorStats(path, tensor, reader.read(tensor)) for path, tensor in named])
        except Exception:  # noqa: BLE001  a user's container or tensor raised; the call must not fail
            return ()

    def _note(self, record: ForwardStats) -> None:
        """Keep the record for the search for NaN and infinities, and fetch statistics if too many are waiting."""
        if self._reader is None or not self._reader.may_be_nonfinite:
            return
        self._unchecked.append(record)
        if len(self._reader.queue) > _MAX_WAITING:
            self._fetch()
        elif not len(self._reader.queue):
            self._check()

    def _check(self) -> None:
        """Search the calls that ended since the last search for the first NaN and infinity."""
        records, self._unchecked = self._unchecked, []
        for record in records:
            if self._first_nan is None and record.nan and record.produced_nan:
                self._first_nan = record
            if self._first_inf is None and record.inf and record.produced_inf:
                self._first_inf = record

    def _fetch(self) -> None:
        """Fetch all statistics and times that are still on a device."""
        if self._reader is not None:
            self._reader.queue.resolve()
            self._check()
        if self._device is not None:
            self._device.resolve()
