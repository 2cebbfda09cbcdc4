"""Measured memory of a pass: the peak of the process's resident set, or of torch's CUDA allocator."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from assay.document.provenance import Figure, Measured, Unknown

if TYPE_CHECKING:
    from assay.timing.bench import Bench

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


def allocator_peak(runner: Bench) -> Figure:
    """Peak bytes allocated by torch on a GPU during a pass, including weights; unknown on other devices."""
    import torch

    if runner.device.type != "cuda":
        return Figure(None, Unknown("torch counts allocations on GPUs only"))
    torch.cuda.reset_peak_memory_stats(runner.device)
    runner.clock()
    return Figure(torch.cuda.max_memory_allocated(runner.device), Measured(_ALLOCATOR))


def of_pass(runner: Bench) -> Figure:
    """Bytes that one pass added to the memory of its device, at the peak."""
    import torch

    if runner.device.type != "cuda":
        return growth(runner.run, repeats=1)[0]
    before = torch.cuda.memory_allocated(runner.device)
    return Figure((allocator_peak(runner).value or before) - before, Measured(_ALLOCATOR))


def free(device: str) -> Figure:
    """Bytes of memory that are free on `device` now."""
    import psutil
    import torch

    by = Measured("currently free memory")
    if device.startswith("cuda"):
        return Figure(torch.cuda.mem_get_info(device)[0], by)
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
