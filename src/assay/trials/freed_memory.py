"""Keeps memory that passes free in the process.

glibc returns it to the system or not depending on what else lies on the heap. Whether a pass pays for page faults
then depends on chance: the same two models differed by a factor of 0.9 in one process and of 1.5 in another.

This file is copied into the scripts that `assay check --apply` writes, so it uses only Python.
"""

from __future__ import annotations

import ctypes


def keep_freed_memory() -> None:
    """Let the C library neither map large blocks one by one nor return freed ones; does nothing without glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    trim_threshold, mmap_threshold, largest = -1, -3, 2**31 - 1
    mallopt(mmap_threshold, largest)
    mallopt(trim_threshold, largest)
