"""Facts about this host: Python, operating system, CPU count, time, directories and environment variables.

Hardware details belong in `machine`; nothing here imports torch.
"""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path

from assay.errors import UsageError

CUDA_MEMORY_FRACTION, PROFILER_LEVEL = "PYTORCH_CUDA_MEMORY_FRACTION", "PYTORCH_PROFILER_LEVEL"
_APP = "assay"


def python_version() -> str:
    """The Python version, for example `3.11.7`."""
    return platform.python_version()


def architecture() -> str:
    """The instruction set, for example `x86_64`."""
    return platform.machine()


def system() -> str:
    """The operating system and instruction set, for example `Linux x86_64`."""
    return f"{platform.system()} {architecture()}"


def processors() -> int:
    """The number of logical CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def now() -> str:
    """The local time to the second, with its UTC offset, for example `2026-11-15T10:30:00+01:00`."""
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")


def today() -> str:
    """The local date, for example `2026-11-15`."""
    return now()[: len("2026-11-15")]


def free_memory() -> int:
    """Bytes of memory available without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)


def cuda_memory_fraction() -> float | None:
    """The fraction of a GPU's memory that this process may use, from the environment; None if it is not limited."""
    text = os.environ.get(CUDA_MEMORY_FRACTION, "").strip()
    if not text:
        return None
    try:
        fraction = float(text)
    except ValueError:
        fraction = 0.0
    if not 0 < fraction <= 1:
        expected = "a number above 0 and at most 1, such as 0.8"
        raise UsageError(f"{CUDA_MEMORY_FRACTION}={text} is not valid: expected {expected}; unset it for no limit")
    return fraction


def profiler_level() -> int | None:
    """The profiling level from the environment: 0, 1 or 2; None if it is not set."""
    text = os.environ.get(PROFILER_LEVEL, "").strip()
    if text and text not in ("0", "1", "2"):
        expected = "0 (structure), 1 (as --inference) or 2 (as --profile)"
        raise UsageError(f"{PROFILER_LEVEL}={text} is not valid: expected {expected}; unset it for the default")
    return int(text) if text else None


def cache_directory() -> Path:
    """The user's cache directory for Assay."""
    import platformdirs

    return _absolute(platformdirs.user_cache_path(_APP), ".cache")


def config_directory() -> Path:
    """The user's configuration directory for Assay."""
    import platformdirs

    return _absolute(platformdirs.user_config_path(_APP), ".config")


def _absolute(path: Path, default_parent: str) -> Path:
    """`path`, or the default directory below the user's home if `path` is relative.

    The XDG standard requires relative paths in its variables to be ignored; early releases of platformdirs 4 do not.
    """
    return path if path.is_absolute() else Path.home() / default_parent / _APP
