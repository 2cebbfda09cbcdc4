"""This machine's hardware: processor, caches, memory and boards, identified without torch and without host names."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path

from msgspec.structs import asdict, replace

from assay import host
from assay.document.machine import Cache, Hardware
from assay.machine.sensors import nvml

CPU, CUDA = "cpu", "cuda"
_SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")
_PROCESSOR = Path("/proc/cpuinfo")
_BOARDS = Path("/proc/driver/nvidia/gpus")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that change torch's default number of threads."""


def identify(device: str = CPU) -> Hardware:
    """The hardware of `device`, with the key its report is stored under."""
    boards = nvml.boards().boards if device == CUDA else []
    name = boards[0].name if boards else (board_names() or ["unnamed board"])[0] if device == CUDA else processor()
    memory = boards[0].memory_bytes if boards else memory_bytes() if device == CPU else None
    hardware = Hardware(
        device=device,
        name=name or "unnamed processor",
        cores=host.processors(),
        memory_bytes=memory,
        caches=caches() if device == CPU else (),
        system=host.system(),
        torch=torch_version(),
        driver=boards[0].driver if boards else None,
    )
    uuids, threads = [board.uuid for board in boards], [os.environ.get(name, "") for name in _THREADS]
    facts = [*asdict(hardware).values(), *uuids, *threads]
    return replace(hardware, key=hashlib.sha256(repr(facts).encode()).hexdigest()[:16])


def torch_version() -> str | None:
    """The installed torch version, read without importing torch; None if torch is not installed."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def processor() -> str | None:
    """The processor's model name."""
    return first_value(_PROCESSOR, "model name") or platform.processor() or None


def memory_bytes() -> int:
    """The machine's total memory in bytes."""
    import psutil

    return int(psutil.virtual_memory().total)


def board_names() -> list[str] | None:
    """The model names of the NVIDIA boards the driver lists; None if it lists none."""
    listed = sorted(_BOARDS.glob("*/information"))
    return [first_value(path, "Model") or "unnamed" for path in listed] or None


def caches(root: Path = _SYSTEM) -> tuple[Cache, ...]:
    """The data and unified caches, smallest first; empty if the system does not list them."""
    data_caches = []
    for index in sorted(root.glob("index*")):
        level, kind, size = (_text(index / name) for name in ("level", "type", "size"))
        if kind in ("Data", "Unified") and level.isdecimal() and size[:-1].isdecimal() and size[-1:] in _UNITS:
            data_caches.append(Cache(int(level), int(size[:-1]) * _UNITS[size[-1]]))
    return tuple(sorted(data_caches, key=lambda cache: cache.level))


def first_value(path: Path, key: str) -> str | None:
    """The first value of `key` in a kernel file of `key : value` lines; None if the key or the file is missing."""
    pairs = (line.partition(":") for line in _text(path).splitlines())
    return next((value.strip() for name, _, value in pairs if name.strip() == key), None)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
