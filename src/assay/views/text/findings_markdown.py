"""Findings as Markdown for a pull request or a step summary of GitHub Actions: brief, table, and folded details."""

from __future__ import annotations

from collections.abc import Sequence

from assay.document.document import Document
from assay.document.findings import Finding
from assay.findings.brief import Brief
from assay.findings.budget import BudgetReport
from assay.findings.engine import CheckResult
from assay.views import tables
from assay.views.gains import gain_text
from assay.views.partial import marked_title
from assay.views.tables import Column, Table, markdown_text, printable
from assay.views.text.brief import brief_parts
from assay.views.text.budget import budget_table
from assay.views.text.findings import NAMING, finding_lines, summary_line
from assay.views.text.report import Report, as_markdown

_MAX_DETAILS = 100
"""Findings with details: GitHub refuses a summary of more than 1 MiB."""


def findings_markdown(
    document: Document,
    checked: CheckResult,
    brief: Brief | None,
    budget: BudgetReport | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The brief, then the findings as Markdown, with the budget if there is one; `notes` follow the totals."""
    columns: tuple[Column[Finding], ...] = (
        *NAMING[:2],
        Column("finding", lambda finding: finding.title),
        Column("gain", lambda finding: gain_text(finding.gain, document) if finding.gain is not None else ""),
        Column("verified", lambda finding: finding.verified or None),
    )
    opening = brief_parts(brief) if brief is not None else [document.model_class or document.origin.name or "Model"]
    table = Table(columns, checked.findings)
    parts = [
        as_markdown(Report([marked_title(str(opening[0]), document), *opening[1:]], table)),
        f"{_escaped(summary_line(checked, verbose=True))}\n",
        *(f"{_escaped(note)}\n" for note in notes),
        *([tables.as_markdown(budget_table(budget))] if budget is not None else []),
        *([tables.as_markdown(table)] if checked.findings else []),
        *(_details(document, finding) for finding in checked.findings[:_MAX_DETAILS]),
    ]
    return "\n".join(parts)


def _details(document: Document, finding: Finding) -> str:
    """The modules, tensors, evidence and advice of a finding, folded."""
    summary = _html(f"{finding.code}: {finding.title}")
    lines = [f"- **{name}**: {_escaped(text)}" for name, text in finding_lines(document, finding)]
    return f"<details><summary>{summary}</summary>\n\n" + "\n".join(lines) + "\n\n</details>\n"


def _escaped(text: str) -> str:
    return markdown_text(printable(text))


def _html(text: str) -> str:
    for special, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(special, entity)
    return printable(text)
