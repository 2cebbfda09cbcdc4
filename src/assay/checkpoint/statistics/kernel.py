"""The kernel in use: the native module where it was built, the numpy reference where not."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

from assay.checkpoint.statistics import reference

kernel: Any = reference
"""Has the functions of `assay.checkpoint.statistics.reference`, all of them with the same arguments and results."""
with suppress(ImportError):
    kernel = import_module("assay.checkpoint.statistics._kernel")


def is_native() -> bool:
    """Whether the native kernel runs; a command says once when it does not."""
    return kernel is not reference


def name() -> str:
    """Which build runs: `avx512`, `avx2`, `baseline` or `numpy`."""
    return str(kernel.isa())
