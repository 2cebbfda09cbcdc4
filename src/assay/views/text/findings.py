"""Findings for people: one block each, worst first, with where, evidence and advice; and as a table for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay import units
from assay.document.document import Document
from assay.document.findings import SEVERITIES, Finding
from assay.document.provenance import Figure, Measured, Modelled
from assay.findings.engine import CheckResult
from assay.findings.naming import folded, listed, places
from assay.findings.rule import Rule
from assay.views.tables import Column, Table
from assay.views.text.amounts import percent
from assay.views.text.facts import facts_table, notes_table
from assay.views.text.report import Parts, Report

_SHOWN = 8
"""Folded names that a block has room for."""
_MANY = 1_000_000
"""Places that the forms for programs list, which is all of them."""

NAMING: tuple[Column[Finding], ...] = (
    Column("code", lambda finding: finding.code),
    Column("severity", lambda finding: finding.severity),
    Column("title", lambda finding: finding.title, shrinks=True),
)
"""The columns that say which finding it is."""

_RULES: tuple[Column[Rule], ...] = (
    Column("code", lambda rule: rule.code),
    Column("severity", lambda rule: rule.severity),
    Column("looks for", lambda rule: rule.summary, shrinks=True),
    Column("advice", lambda rule: rule.advice, shrinks=True, drops=True),
    Column("needs", lambda rule: ", ".join(need.name for need in rule.needs) or None, shrinks=True, drops=True),
)

_WRITTEN: tuple[tuple[Callable[[str], bool], Callable[[Any], str]], ...] = (
    (lambda name: "bytes" in name.split("_") and not name.startswith(("share", "flops_per")), units.size),
    (lambda name: name.split("_")[0] == "share" or name.endswith("_share"), percent),
    (lambda name: name.endswith("_s"), units.seconds),
    (lambda name: name.endswith("_db"), lambda value: f"{value:.1f} dB"),
    (lambda name: "flops" in name and not name.startswith("flops_per"), lambda value: units.count(value, "FLOP")),
    (lambda name: True, lambda value: units.exact(value) if isinstance(value, int) else f"{value:.4g}"),
)
"""How a figure is written, by the unit in its name; the first that fits."""


def findings_report(document: Document, checked: CheckResult) -> Report:
    """Every finding as a block, and a last line that sums up."""
    parts = [*finding_parts(document, checked.findings), notes_table([summary_line(checked)], "summary")]
    return Report(parts, findings_table(document, checked.findings))


def finding_parts(document: Document, findings: Sequence[Finding]) -> Parts:
    """A title for each finding, and below it what it rests on and what to do."""
    parts: Parts = []
    for finding in findings:
        parts += [f"{finding.code} {finding.severity}: {finding.title}", _finding_table(document, finding)]
    return parts


def _finding_table(document: Document, finding: Finding) -> Table:
    lines = {
        "where": places(document, finding.modules, _SHOWN) if finding.modules else "",
        "tensors": listed(folded(finding.tensors), _SHOWN),
        "evidence": evidence_line(finding.evidence),
        "advice": finding.advice,
        "verified": finding.verified,
    }
    return facts_table([(f"  {name}", text) for name, text in lines.items() if text], "name")


def findings_table(document: Document, findings: Sequence[Finding]) -> Table:
    """One row per finding."""
    columns: tuple[Column[Finding], ...] = (
        *NAMING,
        Column("modules", lambda one: places(document, one.modules, _MANY) or None, shrinks=True, drops=True),
        Column("tensors", lambda finding: ", ".join(folded(finding.tensors)) or None, shrinks=True, drops=True),
        Column("evidence", lambda finding: evidence_line(finding.evidence) or None, shrinks=True, drops=True),
        Column("advice", lambda finding: finding.advice, shrinks=True, drops=True),
    )
    return Table(columns, findings)


def rules_table(rules: Sequence[Rule]) -> Table:
    """One row per rule: what it looks for, what it advises and what it needs to know."""
    return Table(_RULES, rules)


def summary_line(checked: CheckResult) -> str:
    """How many findings of each severity there are, and how many rules could say nothing."""
    counts = Counter(finding.severity for finding in checked.findings)
    found = ", ".join(_plural(counts[severity], severity) for severity in SEVERITIES if counts[severity])
    asked = checked.rules - len(checked.skipped)
    skipped = f"; {len(checked.skipped)} could not be applied (-v says why)" if checked.skipped else ""
    return f"{found or 'nothing found'} by {asked} rules{skipped}"


def evidence_line(evidence: Mapping[str, Figure]) -> str:
    """Figures with their names on one line; one that was not counted says how it was obtained."""
    return ", ".join(f"{name.replace('_', ' ')} {_figure(name, figure)}" for name, figure in evidence.items())


def _figure(name: str, figure: Figure) -> str:
    if figure.value is None:
        return units.UNKNOWN
    write = next(write for fits, write in _WRITTEN if fits(name))
    how = {Modelled: " (modelled)", Measured: " (measured)"}.get(type(figure.how), "")
    return f"{write(figure.value)}{how}"


def _plural(count: int, severity: str) -> str:
    return f"{count} {severity}" if count == 1 or severity == "advice" else f"{count} {severity}s"
