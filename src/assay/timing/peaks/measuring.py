"""Everything measured of one device, in the order that disturbs the least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from assay.document.machine import Cache, CacheLevel, Ceiling, Scaling, WorkingSet
from assay.timing.peaks import arithmetic, dispatch, memory
from assay.timing.peaks.bursts import place
from assay.timing.settings import threads


@dataclass
class Peaks:
    """What was found."""

    arithmetic: list[Ceiling] = field(default_factory=list)
    bandwidth: list[Ceiling] = field(default_factory=list)
    levels: list[CacheLevel] = field(default_factory=list)
    sweep: list[WorkingSet] = field(default_factory=list)
    overhead: list[Ceiling] = field(default_factory=list)
    scaling: list[Scaling] = field(default_factory=list)
    threads: int | None = None


def measure(device: str, caches: Sequence[Cache], memory_bytes: int | None, on_step: Callable[[str], None]) -> Peaks:
    """The ceilings of `device`; `on_step` is called before each step."""
    where, found = place(device), Peaks(threads=torch.get_num_threads())
    with torch.inference_mode(), torch.cuda.device(where.device) if where.cuda else nullcontext():
        on_step("the cost of an operation")
        with threads(1):  # waiting for other threads is no part of it
            found.overhead = list(dispatch.overheads(where if where.cuda else where.alone()))
        on_step("arithmetic")
        found.arithmetic = list(arithmetic.peaks(where))
        on_step("memory")
        size = memory.array_bytes(where, caches, memory_bytes)
        found.bandwidth = list(memory.bandwidths(where, size))
        # Caches belong to one core each, so one thread is what shows them.
        with threads(1):
            found.sweep = memory.sweep(where if where.cuda else where.alone(), 2 * size)
        floor = min((one.value for one in found.overhead if one.value is not None), default=0.0)
        found.levels = memory.levels(found.sweep, caches, floor)
        if not where.cuda:
            on_step("threads")
            found.scaling = list(arithmetic.scaling(where, torch.get_num_threads()))
    return found


def available(device: str) -> str:
    """Why `device` cannot be measured, or nothing."""
    if device == "cpu":
        return ""
    if device != "cuda":
        return f"{device!r} was given, cpu or cuda is wanted"
    return "" if torch.cuda.is_available() else "torch sees no CUDA device"


def default_device() -> str:
    """The board where torch sees one, else the processor."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class TorchBoard:
    """What torch knows of the first board."""

    name: str
    memory_bytes: int
    caches: tuple[Cache, ...]
    uuid: str


def board() -> TorchBoard:
    """The first board, which is in use from then on, as it will be when models run."""
    torch.zeros(1, device="cuda:0")
    found = torch.cuda.get_device_properties(0)
    cache = getattr(found, "L2_cache_size", 0)
    caches = (Cache(2, int(cache)),) if cache else ()
    return TorchBoard(str(found.name), int(found.total_memory), caches, str(getattr(found, "uuid", "")))
