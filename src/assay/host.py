"""This host: Python, system, processors, time and the user's directories, each looked up in one place.

Does not belong here: what takes hardware knowledge (`machine`) or torch.
"""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path

_APP = "assay"


def python_version() -> str:
    """For example `3.11.7`."""
    return platform.python_version()


def architecture() -> str:
    """The instruction set, for example `x86_64`."""
    return platform.machine()


def system() -> str:
    """The operating system and instruction set, for example `Linux x86_64`."""
    return f"{platform.system()} {architecture()}"


def processors() -> int:
    """The number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def now() -> str:
    """The local time to the second with its zone, for example `2026-11-15T10:30:00+01:00`."""
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")


def today() -> str:
    """The local date, for example `2026-11-15`."""
    return now()[: len("2026-11-15")]


def free_memory() -> int:
    """Bytes of memory that programs can take without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)


def cache_directory() -> Path:
    """The user's directory for what Assay can measure again."""
    import platformdirs

    return _absolute(platformdirs.user_cache_path(_APP), ".cache")


def config_directory() -> Path:
    """The user's directory for Assay's settings."""
    import platformdirs

    return _absolute(platformdirs.user_config_path(_APP), ".config")


def _absolute(found: Path, usual: str) -> Path:
    """`found`, or the default where it is relative.

    The XDG standard says to ignore a variable that holds a relative path; early releases of platformdirs 4 do not.
    """
    return found if found.is_absolute() else Path.home() / usual / _APP
