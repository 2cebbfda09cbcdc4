"""Facts about this host: Python, operating system, CPU count, time and the user's directories.

Hardware details belong in `machine`; nothing here imports torch.
"""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path

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


def knows_escapes() -> bool:
    """Whether the terminal interprets escape codes."""
    return os.environ.get("TERM") != "dumb"


def uses_color(*, is_terminal: bool) -> bool:
    """Whether to use colour: never with NO_COLOR or TERM=dumb, else always with FORCE_COLOR, else on a terminal.

    As no-color.org and force-color.org define them, both variables count with any value that is not empty.
    """
    if os.environ.get("NO_COLOR") or not knows_escapes():
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal
