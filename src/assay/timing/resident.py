"""Measured memory of a pass: the peak of the process's resident set, and of torch's allocator."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from assay import host
from assay.document.profile import MemoryMeasured
from assay.document.provenance import Figure, Measured, Unknown

if TYPE_CHECKING:
    import torch

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""The value that resets the high-water mark to the current resident set."""
_ALLOCATOR = "torch's CUDA allocator"
_BY = "the kernel's high-water mark of the resident set"


def growth(run: Callable[[], object], repeats: int = 3) -> tuple[Figure, Figure]:
    """The largest growth of the resident set during `run`, and the largest resident set, both in bytes.

    Free memory that the C allocator kept from earlier runs is returned to the system first, if glibc is used.
    """
    growths: list[int] = []
    peaks: list[int] = []
    try:
        for _ in range(repeats):
            gc.collect()
            _trim_heap()
            _RESET.write_text(_RESET_PEAK)
            before = _field("VmRSS")
            run()
            peaks.append(_field("VmHWM"))
            growths.append(max(peaks[-1] - before, 0))
    except (OSError, ValueError) as error:
        why = f"the high-water mark of the resident set cannot be read ({type(error).__name__})"
        return Figure(None, Unknown(why)), Figure(None, Unknown(why))
    return Figure(max(growths), Measured(_BY, repeats)), Figure(max(peaks), Measured(_BY, repeats))


def measured(run: Callable[[], object], device: torch.device, predicted: Figure, repeats: int = 3) -> MemoryMeasured:
    """The memory that `run` needs on its device and in the process, beside the predicted bytes."""
    added, peak = growth(run, repeats)
    allocator = _allocated(run, device)
    return MemoryMeasured(added, peak, allocator.peak, predicted, allocator.growth, allocator.op)


def of_pass(run: Callable[[], object], device: torch.device, fixed: int | None) -> Figure:
    """Peak bytes on the device during one `run`: what torch allocated, and the `fixed` bytes that existed before."""
    if fixed is None:
        return Figure(None, Unknown("the bytes of parameters, buffers and inputs are unknown"))
    added = _allocated(run, device).growth
    if added.value is None or not isinstance(added.how, Measured):
        return added
    return Figure(added.value + fixed, Measured(f"{added.how.by}, plus parameters, buffers and inputs"))


class _Allocator(NamedTuple):
    growth: Figure
    peak: Figure
    op: str = ""


def _allocated(run: Callable[[], object], device: torch.device) -> _Allocator:
    return _on_gpu(run, device) if device.type == "cuda" else _on_other(run, device)


def _on_gpu(run: Callable[[], object], device: torch.device) -> _Allocator:
    import torch

    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    return _Allocator(Figure(peak - before, Measured(_ALLOCATOR)), Figure(peak, Measured(_ALLOCATOR)))


def _on_other(run: Callable[[], object], device: torch.device) -> _Allocator:
    if device.type != "cpu":
        unknown = Figure(None, Unknown(f"torch does not count the allocations on {device.type}"))
        return _Allocator(unknown, unknown)
    from assay.timing import allocations

    added, op = allocations.growth(run)
    return _Allocator(added, Figure(None, Unknown("torch counts all allocations only on GPUs")), op)


def free(device: str) -> Figure:
    """Bytes of memory that are free on `device` now."""
    import psutil
    import torch

    from assay.recorder import cuda_memory

    by = Measured("currently free memory")
    if device.startswith("cuda"):
        free, allowed = torch.cuda.mem_get_info(device)[0], cuda_memory.allowed_bytes(torch.device(device))
        if allowed is None:
            return Figure(free, by)
        left = max(allowed - torch.cuda.memory_reserved(device), 0)
        return Figure(min(free, left), Measured(f"currently free memory within {host.CUDA_MEMORY_FRACTION}"))
    return Figure(int(psutil.virtual_memory().available), by)


def _trim_heap() -> None:
    """Return free heap memory to the system; does nothing without glibc."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return


def _field(name: str) -> int:
    """A memory field of this process's status, in bytes."""
    for line in _STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise ValueError(f"{name} is not in the process status")
