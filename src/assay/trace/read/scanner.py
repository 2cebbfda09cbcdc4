"""The scanner in use: the native module where it was built, plain Python where not."""

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
"""Has `Scanner`, `nest` and `nearest` of `assay.trace.read.reference`, with the same arguments and results."""


def is_native() -> bool:
    """Whether the native scanner runs; a command says once when it does not."""
    return _native is not None
