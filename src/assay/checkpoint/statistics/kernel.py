"""The kernel in use: the native module if it was built, else the numpy reference."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

from assay.checkpoint.statistics import reference

kernel: Any = reference
"""A module with the functions of `assay.checkpoint.statistics.reference`: same arguments, same results."""
with suppress(ImportError):
    kernel = import_module("assay.checkpoint.statistics._kernel")


def is_native() -> bool:
    """Whether the native kernel is in use."""
    return kernel is not reference


def name() -> str:
    """The build in use: `avx512`, `avx2`, `baseline` or `numpy`."""
    return str(kernel.isa())
