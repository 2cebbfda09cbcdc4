"""The tab of findings: what a person should know or do, the worst first, and where."""

from __future__ import annotations

from collections import Counter

from assay import units
from assay.document.findings import SEVERITIES
from assay.document.tree import shown
from assay.views.tui.sheet import Sheet
from assay.views.tui.sheets.grouping import Groups, grouped
from assay.views.tui.subject import ExploredModel

SIGNS = {"error": "✖ error", "warning": "▲ warning", "advice": "◆ advice", "note": "· note"}
MOST_PLACES = 1000
"""Modules listed below one finding."""


def findings_sheet(subject: ExploredModel) -> Sheet:
    """The findings of `subject`, each with the modules it is about below it."""
    document = subject.document
    groups = Groups()
    ranks = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    ordered = sorted(document.findings, key=lambda each: ranks.get(each.severity, len(ranks)))
    for finding in ordered:
        values = {
            "severity": SIGNS.get(finding.severity, finding.severity),
            "code": finding.code,
            "places": len(finding.modules) or None,
            "advice": finding.advice,
            "verified": finding.verified or None,
        }
        first = finding.modules[0] if finding.modules else -1
        top = groups.add(finding.title, kind=finding.code, module=first, values=values)
        for at in finding.modules[:MOST_PLACES]:
            module = document.modules[at]
            groups.add(shown(module.path), top, kind=finding.code, module=at, values={"advice": module.class_name})
    columns = [
        groups.text("severity", "severity", "how bad it is", widest=12),
        groups.text("code", "code", "of the rule", widest=8),
        groups.number("places", "places", "modules it is about", units.exact),
        groups.text("advice", "what to do", "what to do about it", widest=70),
        groups.text("verified", "verified", "how it was tried", on=False, widest=40),
    ]
    counts = Counter(finding.severity for finding in ordered)
    about = " · ".join(f"{counts[each]:,} {each}" for each in SEVERITIES if counts[each])
    return grouped(
        groups,
        id="findings",
        noun="finding",
        columns=columns,
        depth=0,
        about=about or "no findings",
        empty=f"No findings: {subject.no_findings}.",
        biggest="places",
    )
