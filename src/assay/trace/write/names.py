"""Names of trace files: safe for any file system, and unique per model instance."""

from __future__ import annotations

import os
import re
import sys
import threading
from pathlib import Path

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_LONGEST = 100
"""File systems allow 255 bytes; the number, the rank and the suffix need some of them."""


def file_name(model_name: str) -> str:
    """`model_name` made safe as the beginning of a file name: `file_name("../a b") == "a_b"`."""
    safe = _UNSAFE.sub("_", model_name).strip("._-")[:_LONGEST]
    return f"_{safe}" if _RESERVED.fullmatch(safe) else safe or "model"


def rank() -> int | None:
    """This process's rank in a distributed run; None if there is only one process."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    variable = os.environ.get("RANK", "")
    return int(variable) if variable.isdecimal() else None


class FileStems:
    """Assigns every instance a unique stem in a directory: `Model`, then `Model-2`, `Model-3`."""

    def __init__(self) -> None:
        self._claimed: set[tuple[Path, str]] = set()
        self._lock = threading.Lock()

    def claim(self, directory: Path, model_name: str) -> str:
        """A stem that no other instance of this process and no trace in `directory` uses."""
        name = file_name(model_name)
        present = _stems_in(directory)
        with self._lock:
            number = 1
            while (
                directory,
                stem := name if number == 1 else f"{name}-{number}",
            ) in self._claimed or stem in present:
                number += 1
            self._claimed.add((directory, stem))
        return stem


def trace_name(stem: str, number: int, *, gzip: bool) -> str:
    """`trace_name("Net", 7, gzip=False) == "Net_forward_007.json"`; includes the rank in a distributed run."""
    return f"{stem}_forward_{number:03d}{_rank_mark()}.json{'.gz' if gzip else ''}"


def _rank_mark() -> str:
    own = rank()
    return "" if own is None else f"_rank{own}"


def _stems_in(directory: Path) -> set[str]:
    """The stems of existing traces of this rank in `directory`."""
    ours = re.compile(rf"(.+)_forward_\d{{3,}}{_rank_mark()}\.json(\.gz)?")
    try:
        matches = (ours.fullmatch(name) for name in os.listdir(directory))
        return {match[1] for match in matches if match}
    except OSError:
        return set()
