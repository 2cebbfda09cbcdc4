"""Provenance for the page: how figures were obtained, on which machine, under which assumptions."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.document.document import Document
from assay.views.html.columns import provenance
from assay.views.html.convert import blocks_of
from assay.views.html.page import AnyBlock, Fact, FactsBlock, NotesBlock, PageView
from assay.views.html.subject import Subject
from assay.views.tables import printable
from assay.views.text.machine import machine_report
from assay.views.text.totals import captured_line, coverage_line


def provenance_view(subject: Subject) -> PageView:
    """Where every figure comes from."""
    document = subject.document
    blocks: list[AnyBlock] = [FactsBlock(title="How it was made", rows=list(_facts(subject)))]
    assumptions = [*document.run.assumptions, *(subject.memory.assumptions if subject.memory is not None else ())]
    if assumptions:
        blocks.append(NotesBlock(title="Assumptions", lines=[printable(one) for one in assumptions]))
    if subject.memory is not None:
        blocks.append(NotesBlock(title="Not in the predicted memory", lines=list(subject.memory.not_modelled)))
    methods = _methods(document)
    if methods:
        blocks.append(FactsBlock(title="How figures were obtained", rows=methods))
    if subject.limits is not None:
        title, *parts = machine_report(subject.limits).parts
        blocks += blocks_of([f"Limits of the machine: {title}", *parts], "machine")
    skipped = subject.checked.skipped
    if skipped:
        rows = [Fact(one.code, f"{one.summary}: {one.why}") for one in skipped]
        blocks.append(FactsBlock(title=f"{len(skipped)} rules were not applied", rows=rows))
    return PageView("provenance", "Provenance", blocks)


def _facts(subject: Subject) -> Iterator[Fact]:
    document, machine, run = subject.document, subject.document.machine, subject.document.run
    yield Fact("model", printable(document.origin.location or document.origin.kind))
    if document.recorded and document.modules:
        yield Fact("run", printable(captured_line(document)))
    for one in run.inputs:
        yield Fact("input", printable(f"{one.name}: {units.shape(one.type.shape)} {one.type.dtype}"))
    if run.failure is not None:
        yield Fact("stopped", printable(run.failure.error))
    for attempt in run.attempts:
        yield Fact(f"failed pass ({attempt.mode})", printable(attempt.failure.error))
    if document.ops:
        yield Fact("coverage", printable(coverage_line(subject.cost)))
        yield Fact("convention", subject.cost.convention)
    for name, value in (
        ("device", f"{machine.device} ({machine.processor})" if machine.processor else machine.device),
        ("processors", units.exact(machine.processors)),
        ("system", machine.system),
        ("Python", machine.python),
        ("torch", machine.torch),
        ("float32 products", machine.matmul_precision),
        ("time", run.timestamp),
    ):
        if value and value != units.UNKNOWN:
            yield Fact(name, printable(value))
    for what, why in subject.missing.items():
        yield Fact(f"unknown: {what}", printable(why))


def _methods(document: Document) -> list[Fact]:
    """How the columns of each part of the document were obtained."""
    parts = {
        "cost": document.cost,
        "timing": document.timing,
        "profile": document.profile,
        "weights": document.weights,
        "activations": document.activations,
    }
    columns: dict[tuple[str, str, str], list[str]] = {}
    for name, part in parts.items():
        for column, how in part.columns.items() if part is not None else ():
            columns.setdefault((name, *provenance(how)), []).append(column)
    return [Fact(f"{name}: {', '.join(listed)}", by, method) for (name, method, by), listed in columns.items()]
