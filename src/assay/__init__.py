"""Assay analyses PyTorch models: structure, weights, cost, memory, time, energy, and what to improve.

Public names are imported on first use, so `import assay` stays fast; type checkers see the real signatures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from assay.version import __version__

if TYPE_CHECKING:
    from assay.analysis.cost import register_cost
    from assay.analysis.laws.law import Laws
    from assay.analysis.memory import Memory
    from assay.analysis.roofline import Roofline
    from assay.api.analyze.run import analyze
    from assay.api.brief import brief
    from assay.api.capture import capture, capture_model
    from assay.api.check import CheckReport, check
    from assay.api.cost import cost
    from assay.api.energy import energy_meter, measure_energy
    from assay.api.explore import (
        explore,
        explore_torch_module,
        explore_torch_module_with_stats,
        explore_with_stats,
    )
    from assay.api.extract import extract_pytorch_ops, extract_unique_modules
    from assay.api.machine import measure_machine
    from assay.api.memory import memory
    from assay.api.observe import observe
    from assay.api.open import open
    from assay.api.profile.run import profile
    from assay.api.report import report
    from assay.api.roofline import roofline
    from assay.api.summary import summary
    from assay.api.trace import compare_traces, read_trace, read_traces
    from assay.api.vary import vary
    from assay.api.weights import analyze_weights
    from assay.document.cost import Cost
    from assay.document.document import Document
    from assay.document.files import load, save
    from assay.document.findings import Finding
    from assay.document.machine import MachineReport
    from assay.document.trace import Trace, TraceDiff, Traces
    from assay.document.weights import WeightsReport
    from assay.errors import AssayError, PartialWarning
    from assay.findings.analyzed import Analysis
    from assay.forward_stats import (
        clear_forward_stats,
        record_forward_stats,
        record_torch_module_forward_stats,
    )
    from assay.machine.monitor import Monitor
    from assay.sources.opened import Opened
    from assay.trace.read.contract import parse_model_trace
    from assay.views.text.brief_view import BriefView
    from assay.views.text.summary import Summary

_MODULES = {
    "analysis.cost": ("register_cost",),
    "analysis.laws.law": ("Laws",),
    "analysis.memory": ("Memory",),
    "analysis.roofline": ("Roofline",),
    "api.analyze.run": ("analyze",),
    "api.brief": ("brief",),
    "api.capture": ("capture", "capture_model"),
    "api.check": ("CheckReport", "check"),
    "api.cost": ("cost",),
    "api.energy": ("energy_meter", "measure_energy"),
    "api.explore": (
        "explore", "explore_torch_module", "explore_torch_module_with_stats", "explore_with_stats",
    ),
    "api.extract": ("extract_pytorch_ops", "extract_unique_modules"),
    "api.machine": ("measure_machine",),
    "api.memory": ("memory",),
    "api.observe": ("observe",),
    "api.open": ("open",),
    "api.profile.run": ("profile",),
    "api.report": ("report",),
    "api.roofline": ("roofline",),
    "api.summary": ("summary",),
    "api.trace": ("compare_traces", "read_trace", "read_traces"),
    "api.vary": ("vary",),
    "api.weights": ("analyze_weights",),
    "document.cost": ("Cost",),
    "document.document": ("Document",),
    "document.files": ("load", "save"),
    "document.findings": ("Finding",),
    "document.machine": ("MachineReport",),
    "document.trace": ("Trace", "TraceDiff", "Traces"),
    "document.weights": ("WeightsReport",),
    "errors": ("AssayError", "PartialWarning"),
    "findings.analyzed": ("Analysis",),
    "forward_stats": ("clear_forward_stats", "record_forward_stats", "record_torch_module_forward_stats"),
    "machine.monitor": ("Monitor",),
    "sources.opened": ("Opened",),
    "trace.read.contract": ("parse_model_trace",),
    "views.text.brief_view": ("BriefView",),
    "views.text.summary": ("Summary",),
}  # fmt: skip
"""The public names by defining module: the same imports as above, made on first use at run time."""

_MODULE_OF = {name: f"assay.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "Analysis", "AssayError", "BriefView", "CheckReport", "Cost", "Document", "Finding", "Laws", "MachineReport",
    "Memory", "Monitor", "Opened", "PartialWarning", "Roofline", "Summary", "Trace", "TraceDiff", "Traces",
    "WeightsReport", "__version__", "analyze", "analyze_weights", "brief", "capture", "capture_model", "check",
    "clear_forward_stats", "compare_traces", "cost", "energy_meter", "explore", "explore_torch_module",
    "explore_torch_module_with_stats", "explore_with_stats", "extract_pytorch_ops", "extract_unique_modules",
    "load", "measure_energy", "measure_machine", "memory", "observe", "open", "parse_model_trace", "profile",
    "read_trace", "read_traces", "record_forward_stats", "record_torch_module_forward_stats", "register_cost",
    "report", "roofline", "save", "summary", "vary",
]  # fmt: skip

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'assay' has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
