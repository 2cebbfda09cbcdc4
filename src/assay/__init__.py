"""Assay: what a PyTorch model is, what it costs, how it behaves and what to do about it.

Names are resolved on first use, so that importing assay imports nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from assay.version import __version__

_WHERE = {
    "observe": "assay.api",
    "open": "assay.api",
    "cost": "assay.api",
    "memory": "assay.api",
    "summary": "assay.api",
    "vary": "assay.varying",
    "analyze_weights": "assay.weighing",
    "register_cost": "assay.analyses.cost",
    "load": "assay.document.files",
    "save": "assay.document.files",
    "extract_unique_modules": "assay.extraction",
    "extract_pytorch_ops": "assay.extraction",
    "Document": "assay.document.document",
    "AssayError": "assay.errors",
}

__all__ = ["__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
