"""Checking a model against a budget: which limits apply to it, the files they refer to, and the comparison."""

from __future__ import annotations

import os
from pathlib import Path

from assay.api.project import BudgetTables
from assay.document import files
from assay.document.document import Document
from assay.document.provenance import Counted, Figure
from assay.errors import UsageError
from assay.findings.budget import BudgetReport, budget_report
from assay.findings.engine import CheckResult
from assay.findings.limits import Limits
from assay.findings.quantities import BudgetFacts


def model_names(document: Document) -> tuple[str, ...]:
    """What a pattern of a budget can match: `Net`, `nets/net.py::load`, `nets/net.py`, `net.py`, `load`."""
    origin = document.origin
    file, _, function = origin.location.rpartition(":")
    names = (document.model_class, origin.location, origin.name, file, os.path.basename(file), f"{file}::{function}")
    return tuple(dict.fromkeys(filter(None, names)))


def document_limits(tables: BudgetTables, document: Document) -> Limits:
    """The limits that apply to the model of `document`; UsageError if there are none."""
    limits = tables.limits(model_names(document))
    if limits.empty:
        names = ", ".join(model_names(document))
        raise UsageError(f"{tables.path} has no limit for this model: none of its patterns matches {names}")
    return limits


def check_budget(document: Document, checked: CheckResult | None, limits: Limits, directory: Path) -> BudgetReport:
    """Compare a document and its findings with `limits`; the path of a reference is relative to `directory`."""
    facts = BudgetFacts(document, checked, _file_bytes(document))
    reference = None
    if limits.latency is not None:
        reference = files.load(directory / limits.latency.reference)
    return budget_report(facts, limits, reference)


def _file_bytes(document: Document) -> Figure | None:
    """The size of the file that the weights were read from; None for a live model, several files or a lost file."""
    path = document.weights.path if document.weights is not None else ""
    if path.endswith(".json") or not os.path.isfile(path):
        return None
    return Figure(os.path.getsize(path), Counted("size of the file"))
