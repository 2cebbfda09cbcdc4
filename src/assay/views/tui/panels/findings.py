"""The findings on the selected module."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from assay.document.findings import Finding
from assay.document.provenance import Figure
from assay.document.tree import path_text
from assay.views.gains import gain_text
from assay.views.tui.panels.context import PanelContext, line, plain
from assay.views.tui.sheets.findings import SIGNS

STYLES = {"error": "error", "warning": "warning", "advice": "accent", "note": "success"}


def contents(context: PanelContext) -> Iterator[RenderableType]:
    """The findings on the module or one of its tensors, with their evidence."""
    document = context.subject.document
    own = {name for at in context.row.tensors.values() for name in document.tensors[at].names}
    findings = [each for each in document.findings if context.module in each.modules or own & set(each.tensors)]
    if findings:
        yield Group(*(part for each in findings for part in _finding(each, context)))
    elif document.findings:
        yield plain(f"No findings on {path_text(context.row.path)}; see tab 6 for other modules.", "dim")
    else:
        yield plain(context.subject.no_findings, "dim")


def _finding(finding: Finding, context: PanelContext) -> list[RenderableType]:
    style = context.styles[STYLES.get(finding.severity, "accent")]
    parts: list[RenderableType] = [
        line((f"{SIGNS.get(finding.severity, finding.severity)} {finding.code}", style)),
        plain(finding.title, "bold"),
        plain(finding.advice),
    ]
    parts += [line((f"  {name} ", "dim"), (_figure(figure), "")) for name, figure in finding.evidence.items()]
    if finding.gain is not None:
        parts.append(line(("gain: ", "dim"), (gain_text(finding.gain, context.subject.document), "")))
    if finding.verified:
        parts.append(line(("verified: ", "dim"), (finding.verified, "")))
    return [*parts, Text()]


def _figure(figure: Figure) -> str:
    method = type(figure.how).__name__.lower()
    return f"– ({method})" if figure.value is None else f"{figure.value:g} ({method})"
