"""Findings as Markdown for a pull request or a step summary of GitHub Actions: a table, and folded details."""

from __future__ import annotations

from collections.abc import Sequence

from assay import units
from assay.document.document import Document
from assay.document.findings import BYTES, ENERGY, MEMORY, TIME, Finding, Gain
from assay.document.provenance import Modelled
from assay.findings.budget import BudgetReport
from assay.findings.engine import CheckResult
from assay.views import tables
from assay.views.partial import marked_title
from assay.views.tables import Column, Table, markdown_text, percent, printable
from assay.views.text.budget import budget_table
from assay.views.text.findings import NAMING, finding_lines, summary_line

_MAX_DETAILS = 100
"""Findings with details: GitHub refuses a summary of more than 1 MiB."""
_NOUNS = {TIME: "time", MEMORY: "peak memory", BYTES: "stored bytes", ENERGY: "energy"}
_AMOUNTS = {TIME: units.seconds, MEMORY: units.size, BYTES: units.size, ENERGY: units.joules}

_COLUMNS: tuple[Column[Finding], ...] = (
    *NAMING[:2],
    Column("finding", lambda finding: finding.title),
    Column("gain", lambda finding: gain_text(finding.gain)),
    Column("verified", lambda finding: finding.verified or None),
)


def findings_markdown(
    document: Document, checked: CheckResult, budget: BudgetReport | None = None, notes: Sequence[str] = ()
) -> str:
    """The findings as Markdown, with the budget if there is one; `notes` are lines below the totals."""
    title = marked_title(document.model_class or document.origin.name or "Model", document)
    parts = [
        f"## {_escaped(title)}\n",
        f"{_escaped(summary_line(checked, verbose=True))}\n",
        *(f"{_escaped(note)}\n" for note in notes),
        *([tables.as_markdown(budget_table(budget))] if budget is not None else []),
        *([tables.as_markdown(Table(_COLUMNS, checked.findings))] if checked.findings else []),
        *(_details(document, finding) for finding in checked.findings[:_MAX_DETAILS]),
    ]
    return "\n".join(parts)


def gain_text(gain: Gain | None) -> str:
    """`up to 12.5 % of time (3.2 ms, modelled)`; a dash if the gain is unknown, nothing if there is none."""
    if gain is None:
        return ""
    amount = _AMOUNTS[gain.of](gain.amount.value) if gain.amount.value is not None else ""
    method = "modelled" if amount and isinstance(gain.amount.how, Modelled) else ""
    inside = ", ".join(filter(None, (amount, method)))
    if gain.share.value is None:
        return f"up to {inside} of {_NOUNS[gain.of]}" if inside else units.UNKNOWN
    return f"up to {percent(gain.share.value)} of {_NOUNS[gain.of]}" + (f" ({inside})" if inside else "")


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
