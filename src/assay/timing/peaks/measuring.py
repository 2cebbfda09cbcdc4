"""All measurements of one device, ordered so that they disturb one another least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from assay.document.machine import Cache, CacheLevel, Ceiling, Scaling, WorkingSet
from assay.timing.peaks import arithmetic, dispatch, memory
from assay.timing.peaks.bursts import timed_device
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


def measure(device: str, caches: Sequence[Cache], memory_bytes: int | None, on_step: Callable[[str], None]) -> Peaks:
    """The limits of `device`; `on_step` is called with a title before each step."""
    where, limits = timed_device(device), Peaks(threads=torch.get_num_threads())
    with torch.inference_mode(), torch.cuda.device(where.device) if where.cuda else nullcontext():
        on_step("overhead per op")
        with threads(1):  # the time spent waiting for other threads is not overhead
            limits.overhead = list(dispatch.overheads(where if where.cuda else where.alone()))
        on_step("arithmetic")
        limits.arithmetic = list(arithmetic.peaks(where))
        on_step("memory")
        size = memory.array_bytes(where, caches, memory_bytes)
        limits.bandwidth = list(memory.bandwidths(where, size))
        # A core has its own caches, so only a single thread shows them.
        with threads(1):
            limits.sweep = memory.sweep(where if where.cuda else where.alone(), 2 * size)
        floor = min((one.value for one in limits.overhead if one.value is not None), default=0.0)
        limits.levels = memory.levels(limits.sweep, caches, floor)
        if not where.cuda:
            on_step("threads")
            limits.scaling = list(arithmetic.scaling(where, torch.get_num_threads()))
    return limits


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
