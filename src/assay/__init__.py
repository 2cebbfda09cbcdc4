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
    "measure_machine": "assay.profiling.machine",
    "memory": "assay.api",
    "summary": "assay.api",
    "vary": "assay.varying",
    "profile": "assay.profiling.running",
    "analyze": "assay.analyzing.running",
    "analyze_weights": "assay.weighing",
    "capture": "assay.tracing",
    "capture_model": "assay.tracing",
    "read_trace": "assay.traces.reading",
    "parse_model_trace": "assay.traces.contract",
    "register_cost": "assay.analyses.cost",
    "load": "assay.document.files",
    "save": "assay.document.files",
    "extract_unique_modules": "assay.extraction",
    "extract_pytorch_ops": "assay.extraction",
    "record_forward_stats": "assay.watching.forward_stats",
    "record_torch_module_forward_stats": "assay.watching.forward_stats",
    "clear_forward_stats": "assay.watching.forward_stats",
    "explore": "assay.exploring",
    "explore_with_stats": "assay.exploring",
    "explore_torch_module": "assay.exploring",
    "explore_torch_module_with_stats": "assay.exploring",
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
