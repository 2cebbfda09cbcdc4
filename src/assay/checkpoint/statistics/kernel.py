"""The kernel in use: the native module where it was built, the numpy reference where not."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from assay.checkpoint.statistics import reference


def _built() -> Any:
    try:
        return import_module("assay.checkpoint.statistics._kernel")
    except ImportError:
        return None


_native = _built()

kernel: Any = reference if _native is None else _native
"""Has the functions of `assay.checkpoint.statistics.reference`, all of them with the same arguments and results."""


def is_native() -> bool:
    """Whether the native kernel runs; a command says once when it does not."""
    return _native is not None


def name() -> str:
    """Which build runs: `avx512`, `avx2`, `baseline` or `numpy`."""
    return str(kernel.isa())
