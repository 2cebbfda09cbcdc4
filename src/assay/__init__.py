"""Assay: what a PyTorch model is, what it costs, how it behaves and what to do about it.

Names are resolved on first use, so that importing assay imports nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from assay.version import __version__

_WHERE = {
    "observe": "assay.api.observe",
    "open": "assay.api.open",
    "cost": "assay.api.cost",
    "measure_machine": "assay.api.machine",
    "memory": "assay.api.memory",
    "summary": "assay.api.summary",
    "vary": "assay.api.vary",
    "profile": "assay.api.profile.run",
    "analyze": "assay.api.analyze.run",
    "analyze_weights": "assay.api.weights",
    "capture": "assay.api.capture",
    "capture_model": "assay.api.capture",
    "read_trace": "assay.trace.read.reading",
    "parse_model_trace": "assay.trace.read.contract",
    "register_cost": "assay.analysis.cost",
    "load": "assay.document.files",
    "save": "assay.document.files",
    "extract_unique_modules": "assay.api.extract",
    "extract_pytorch_ops": "assay.api.extract",
    "record_forward_stats": "assay.forward_stats",
    "record_torch_module_forward_stats": "assay.forward_stats",
    "clear_forward_stats": "assay.forward_stats",
    "explore": "assay.api.explore",
    "explore_with_stats": "assay.api.explore",
    "explore_torch_module": "assay.api.explore",
    "explore_torch_module_with_stats": "assay.api.explore",
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
