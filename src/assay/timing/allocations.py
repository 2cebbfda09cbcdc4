"""What torch's CPU allocator handed out during a run, from the allocations that torch's profiler records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from assay.document.provenance import Figure, Measured, Unknown
from assay.trace.write import profiler
from assay.trace.write.plan import CapturePlan

BY = "torch's CPU allocator"
_MEMORY = "[memory]"
_NOT_OPS = ("autograd::", "Optimizer", "[")
"""How the names of events around ops begin."""


def growth(run: Callable[[], object]) -> tuple[Figure, str]:
    """Peak bytes that torch allocated during `run` and had not freed, and the op that was running then."""
    if profiler.watch.busy() or not profiler.turn.acquire(blocking=False):
        return Figure(None, Unknown("another profiler is running, and a process can run only one")), ""
    try:
        return _recorded(run)
    finally:
        profiler.release_turn()


def _recorded(run: Callable[[], object]) -> tuple[Figure, str]:
    # The default configuration keeps events in memory instead of only writing them to a trace.
    keep = {"experimental_config": torch._C._profiler._ExperimentalConfig()}
    plan = CapturePlan(Path(), record_shapes=False, profile_memory=True, options=keep)
    session = profiler.ProfilerSession(plan, all_threads=False)
    try:
        run()
    finally:
        session.abandon()
    if session.lost is not None:
        return Figure(None, Unknown(session.lost)), ""
    peak, op = peak_of(session.events())
    return Figure(peak, Measured(BY)), op


def peak_of(events: Iterable[Any]) -> tuple[int, str]:
    """The largest sum of the sizes of CPU allocations so far, and the outermost op around that moment."""
    cpu = [event for event in events if event.device_type() == torch.autograd.DeviceType.CPU]
    now = peak = 0
    moment = -1
    for event in sorted((event for event in cpu if event.name() == _MEMORY), key=lambda event: event.start_ns()):
        now += event.nbytes()
        if now > peak:
            peak, moment = now, event.start_ns()
    around = [
        event
        for event in cpu
        if not event.name().startswith(_NOT_OPS)
        and event.start_ns() <= moment <= event.start_ns() + event.duration_ns()
    ]
    return peak, max(around, key=lambda event: event.duration_ns()).name() if around else ""
