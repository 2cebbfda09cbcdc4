"""All measurements of one device, ordered so that they disturb one another least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from assay.document.machine import Cache, CacheLevel, Ceiling, Scaling, WorkingSet
from assay.timing.peaks import arithmetic, dispatch, memory
from assay.timing.peaks.bursts import TimedDevice, timed_device, unmeasured
from assay.timing.peaks.effort import FULL, Effort
from assay.timing.settings import threads


@dataclass
class Peaks:
    """The measured limits of one device."""

    arithmetic: list[Ceiling] = field(default_factory=list)
    bandwidth: list[Ceiling] = field(default_factory=list)
    levels: list[CacheLevel] = field(default_factory=list)
    sweep: list[WorkingSet] = field(default_factory=list)
    overhead: list[Ceiling] = field(default_factory=list)
    scaling: list[Scaling] = field(default_factory=list)
    threads: int | None = None
    left_out: list[str] = field(default_factory=list)
    """What was not measured to save time."""


def measure(
    device: str,
    caches: Sequence[Cache],
    memory_bytes: int | None,
    on_step: Callable[[str], None],
    effort: Effort = FULL,
) -> Peaks:
    """The limits of `device`; `on_step` is called with a title before each step."""
    where, limits = timed_device(device), Peaks(threads=torch.get_num_threads())
    is_late = effort.timer()
    with torch.inference_mode(), torch.cuda.device(where.device) if where.cuda else nullcontext():
        on_step("overhead per op")
        with threads(1):  # the time spent waiting for other threads is not overhead
            limits.overhead = list(dispatch.overheads(where if where.cuda else where.alone(), effort.share))
        on_step("arithmetic")
        peaks = {name: arithmetic.peak(where, name, effort.share) for name in arithmetic.MAIN}
        on_step("memory")
        size = memory.array_bytes(where, caches, memory_bytes)
        limits.bandwidth = list(memory.bandwidths(where, size, effort.share))
        if effort.details:
            _measure_caches(where, caches, 2 * size, limits)
        on_step("arithmetic in other precisions")
        for name in arithmetic.precisions(where):
            if name not in peaks and is_late():
                limits.left_out.append(name)
                peaks[name] = unmeasured(name, "left out of a quick measurement")
            elif name not in peaks:
                peaks[name] = arithmetic.peak(where, name, effort.share)
        limits.arithmetic = [peaks[name] for name in arithmetic.precisions(where)]
        if not effort.details:
            limits.left_out += ["caches"] if where.cuda else ["caches", "thread scaling"]
        elif not where.cuda:
            on_step("threads")
            limits.scaling = list(arithmetic.scaling(where, torch.get_num_threads()))
    return limits


def _measure_caches(where: TimedDevice, caches: Sequence[Cache], largest: int, limits: Peaks) -> None:
    """Add the bandwidth at each working set, and of each cache, to `limits`."""
    with threads(1):  # a core has its own caches, so only a single thread shows them
        limits.sweep = memory.sweep(where if where.cuda else where.alone(), largest)
    floor = min((one.value for one in limits.overhead if one.value is not None), default=0.0)
    limits.levels = memory.levels(limits.sweep, caches, floor)


def unavailable_reason(device: str) -> str:
    """Why `device` cannot be measured; empty if it can."""
    if device == "cpu":
        return ""
    if device != "cuda":
        return f"unknown device {device!r}: expected cpu or cuda"
    return "" if torch.cuda.is_available() else "torch found no CUDA device"


def default_device() -> str:
    """`cuda` if torch finds a CUDA device, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class TorchBoard:
    """The first CUDA device as described by torch."""

    name: str
    memory_bytes: int
    caches: tuple[Cache, ...]
    uuid: str


def board() -> TorchBoard:
    """The first CUDA device, initialised as it will be when models run."""
    torch.zeros(1, device="cuda:0")
    properties = torch.cuda.get_device_properties(0)
    cache = getattr(properties, "L2_cache_size", 0)
    caches = (Cache(2, int(cache)),) if cache else ()
    uuid = str(getattr(properties, "uuid", ""))
    return TorchBoard(str(properties.name), int(properties.total_memory), caches, uuid)
