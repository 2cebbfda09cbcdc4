"""How much memory a pass really takes: the resident set's high-water mark, or the peak of a board's allocator."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from assay.document.provenance import Figure, Measured, Unknown

if TYPE_CHECKING:
    from assay.timing.measuring import Bench

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""What the kernel wants to hear to set the high-water mark back to what is resident now."""
_ALLOCATOR = "torch's CUDA allocator"
_BY = "the kernel's high-water mark of the resident set"


def growth(run: Callable[[], object], repeats: int = 3) -> tuple[Figure, Figure]:
    """The most memory a run added to what was resident before, and the most the process held; each in bytes.

    Memory that the C library's allocator kept from earlier runs is given back first, where it can be told to.
    """
    grown: list[int] = []
    peaks: list[int] = []
    try:
        for _ in range(repeats):
            gc.collect()
            _give_back()
            _RESET.write_text(_RESET_PEAK)
            before = _field("VmRSS")
            run()
            peaks.append(_field("VmHWM"))
            grown.append(max(peaks[-1] - before, 0))
    except (OSError, ValueError) as error:
        why = f"the resident set's high-water mark cannot be read here ({type(error).__name__})"
        return Figure(None, Unknown(why)), Figure(None, Unknown(why))
    return Figure(max(grown), Measured(_BY, repeats)), Figure(max(peaks), Measured(_BY, repeats))


def allocator_peak(stand: Bench) -> Figure:
    """The most that torch's allocator held on an accelerator during a pass, weights included."""
    import torch

    if stand.device.type != "cuda":
        return Figure(None, Unknown("only an accelerator's allocator keeps count"))
    torch.cuda.reset_peak_memory_stats(stand.device)
    stand.time_ns()
    return Figure(torch.cuda.max_memory_allocated(stand.device), Measured(_ALLOCATOR))


def of_pass(stand: Bench) -> Figure:
    """What one pass added to the memory of the device it ran on."""
    import torch

    if stand.device.type != "cuda":
        return growth(stand.run, repeats=1)[0]
    before = torch.cuda.memory_allocated(stand.device)
    return Figure((allocator_peak(stand).value or before) - before, Measured(_ALLOCATOR))


def free(device: str) -> Figure:
    """The memory that is free now on `device`."""
    import psutil
    import torch

    by = Measured("memory that is free now")
    if device.startswith("cuda"):
        return Figure(torch.cuda.mem_get_info(device)[0], by)
    return Figure(int(psutil.virtual_memory().available), by)


def _give_back() -> None:
    """Return freed memory to the system, which only glibc has a call for."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return


def _field(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise ValueError(f"{name} is not in the process status")
