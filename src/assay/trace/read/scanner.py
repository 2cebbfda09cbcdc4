"""The scanner in use: the native module if it was built, else the one in pure Python."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _built() -> Any:
    try:
        return import_module("assay.trace.read._scanner")
    except ImportError:
        return None


_native = _built()

scanner: Any = import_module("assay.trace.read.reference") if _native is None else _native
"""A module with the functions and classes of `assay.trace.read.reference`, with the same arguments and results."""


def is_native() -> bool:
    """Whether the native scanner is in use."""
    return _native is not None
