"""Checking a model against a budget: which limits apply to it, what must run for them, and the comparison."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from assay.api.check import EvidenceOptions, check_document, document_to_check
from assay.api.observe import observe_opened
from assay.api.options import RunOptions
from assay.api.project import BudgetTables
from assay.document import files
from assay.document.document import Document, Origin
from assay.document.provenance import Counted, Figure
from assay.errors import UsageError
from assay.findings.budget import BudgetReport, budget_report
from assay.findings.catalogue import selected_rules
from assay.findings.engine import CheckResult
from assay.findings.limits import Limits
from assay.findings.quantities import BudgetFacts
from assay.sources.opened import Opened

_LATENCY_S = 5.0
"""Longest measurement of the time of a pass, in seconds."""


class BudgetRun(msgspec.Struct, frozen=True):
    """A model that was run for its budget."""

    document: Document
    report: BudgetReport


def model_names(origin: Origin, model_class: str) -> tuple[str, ...]:
    """What a pattern of a budget can match: `Net`, `nets/net.py::load`, `nets/net.py`, `net.py`, `load`."""
    file, _, function = origin.location.rpartition(":")
    names = (model_class, origin.location, origin.name, file, os.path.basename(file), f"{file}::{function}")
    return tuple(dict.fromkeys(filter(None, names)))


def document_limits(tables: BudgetTables, document: Document) -> Limits:
    """The limits that apply to the model of `document`; UsageError if there are none."""
    known = model_names(document.origin, document.model_class)
    limits = tables.limits(known)
    if limits.empty:
        names = ", ".join(known)
        raise UsageError(f"{tables.path} has no limit for this model: none of its patterns matches {names}")
    return limits


def check_budget(document: Document, checked: CheckResult | None, limits: Limits, directory: Path) -> BudgetReport:
    """Compare a document and its findings with `limits`; the path of a reference is relative to `directory`."""
    facts = BudgetFacts(document, checked, _file_bytes(document))
    reference = None
    if limits.latency is not None:
        reference = files.load(directory / limits.latency.reference)
    return budget_report(facts, limits, reference)


def run_budget(
    opened: Opened, inputs: Any, options: RunOptions, limits: Limits, directory: Path, *, save_reference: bool = False
) -> BudgetRun:
    """Run a model as its limits require, and compare it with them.

    A training step and the time of a pass are measured only if they are limited. With `save_reference`, the document
    replaces the one that the limit of latency refers to.
    """
    rules = selected_rules() if limits.needs_rules else ()
    untimed = EvidenceOptions(measure=False)
    document = (
        document_to_check(opened, inputs, options, untimed) if rules else observe_opened(opened, inputs, options)
    )
    if limits.latency is not None:
        document = _timed(document, opened, inputs, options)
        if save_reference and not document.stopped:
            files.save(document, directory / limits.latency.reference)
    checked = check_document(document, rules).checked if rules else None
    training, others = limits.split_training()
    report = check_budget(document, checked, others, directory)
    if training.empty:
        return BudgetRun(document, report)
    step = observe_opened(opened, inputs, replace(options, backward=True))
    lines = [*report.lines, *check_budget(step, None, training, directory).lines]
    return BudgetRun(document if document.stopped else step, BudgetReport(lines, report.strict))


def _timed(document: Document, opened: Opened, inputs: Any, options: RunOptions) -> Document:
    """The document with the measured time of a pass; unchanged if it is a saved one or the pass stopped."""
    from assay.api.profile.options import ProfileOptions
    from assay.api.profile.profiled import prepare
    from assay.api.profile.run import profile_prepared

    if opened.document is not None or document.stopped:
        return document
    settings = ProfileOptions(seconds=_LATENCY_S)
    measured = profile_prepared(prepare(opened, inputs, replace(options, mode="real")), settings)
    return msgspec.structs.replace(
        document, profile=measured.profile, timing=measured.timing, machine=measured.machine
    )


def _file_bytes(document: Document) -> Figure | None:
    """The size of the file that the weights were read from; None for a live model, several files or a lost file."""
    path = document.weights.path if document.weights is not None else ""
    if path.endswith(".json") or not os.path.isfile(path):
        return None
    return Figure(os.path.getsize(path), Counted("size of the file"))
