"""Previews of models: documents, analyses, findings, summaries, and models that were only opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace as with_fields

from msgspec.structs import replace

from assay.api.check import CheckReport
from assay.api.display.large import is_large, of_large
from assay.api.display.preview import Preview, parts_of_report, preview
from assay.api.display.traces import trace_parts
from assay.api.display.weights import tensor_parts
from assay.api.report.subject import Reported, subject_of
from assay.document.document import Document
from assay.document.findings import Finding
from assay.findings.analyzed import Analysis
from assay.findings.brief import Brief
from assay.sources.opened import Opened
from assay.views.gains import short_gain
from assay.views.html.compact import ROWS, Part
from assay.views.html.tree import TreePart
from assay.views.partial import marked_title
from assay.views.text.brief_view import BriefView
from assay.views.text.facts import facts_table
from assay.views.text.findings import finding_lines, findings_table, severity_name, summary_line
from assay.views.text.profile_modules import where_parts
from assay.views.text.summary import Summary

_COLUMNS = ("output", "params", "flops", "share")


def of_document(document: Document) -> Preview:
    """What is known about the model, and what the rules find."""
    return _of_model(document, document, document.findings)


def of_analysis(analysis: Analysis) -> Preview:
    """What is known about the model, what is not and why, and the findings."""
    return _of_model(analysis, analysis.document, analysis.checked.findings)


def of_check(report: CheckReport) -> Preview:
    """The findings, after what is known about the model."""
    made = _of_model(report, report.document, report.findings)
    totals = summary_line(report.checked, verbose=True)
    brief = replace(made.brief, identity=(*made.brief.identity, totals))
    table = findings_table(report.document, report.findings)
    return Preview(with_fields(made.subject, brief=brief), lambda: ["Findings", table] if table.rows else ())


def of_finding(finding: Finding) -> Preview:
    """One line; in a notebook its evidence and advice below."""
    state = " ".join(filter(None, (severity_name(finding.severity), finding.code)))
    identity = (state, finding.title, short_gain(finding.gain) or "")
    lines = finding_lines(Document(), *_unplaced([finding]))
    return preview(Brief(tuple(filter(None, identity))), lambda: [facts_table(lines)])


def of_brief(view: BriefView | Brief) -> Preview:
    """The brief itself."""
    brief = view.data if isinstance(view, BriefView) else view
    return preview(replace(brief, actions=_unplaced(brief.actions), problems=_unplaced(brief.problems)))


def of_summary(summary: Summary) -> Preview:
    """The module tree, and the totals below it."""
    title = marked_title(summary.name, summary.document)
    return preview(Brief((title,)), lambda: [TreePart(*summary.tree()), facts_table(summary.facts())])


def of_opened(opened: Opened) -> Preview:
    """Where the model is; nothing is read for it."""
    origin = opened.origin
    where = origin.location if origin.location != origin.name else ""
    return preview(Brief(tuple(filter(None, (origin.name, origin.kind, where)))))


def _of_model(result: Reported, document: Document, findings: Sequence[Finding]) -> Preview:
    if is_large(document):
        return of_large(document, findings)
    return Preview(subject_of(result), lambda: list(_parts(document)))


def _parts(document: Document) -> Iterator[Part]:
    """Where the time goes, or the modules, or what else there is."""
    where = parts_of_report(where_parts(document))
    if where:
        yield from where
    elif document.modules:
        yield from ("Modules", _modules(document))
    elif document.weights is not None:
        yield from tensor_parts(document.weights)
    elif len(document.traces) == 1:
        yield from trace_parts(document.traces[0])


def _modules(document: Document) -> TreePart:
    """The upper levels of the module tree, as many as fit."""
    headings, rows = Summary(document, columns=_COLUMNS).tree()
    depths = [depth for depth, _ in rows]
    fitting = [level for level in range(1, max(depths) + 1) if sum(depth <= level for depth in depths) <= 2 * ROWS]
    deepest = max(fitting, default=1)
    return TreePart(headings, [row for row in rows if row[0] <= deepest][: 2 * ROWS])


def _unplaced(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without their modules, which are indices into a document that is not known here."""
    return [replace(finding, modules=()) for finding in findings]
