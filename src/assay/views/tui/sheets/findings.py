"""The findings tab: all findings, most severe first, with their modules."""

from __future__ import annotations

from collections import Counter

from assay import units
from assay.document.findings import SEVERITIES
from assay.document.tree import path_text
from assay.messages import plural
from assay.views.gains import short_gain
from assay.views.tui.sheet import Sheet
from assay.views.tui.sheets.grouping import Groups, grouped
from assay.views.tui.subject import ExploredModel

SIGNS = {"error": "✖ error", "warning": "▲ warning", "advice": "◆ advice", "note": "· note"}
MAX_MODULES = 1000
"""The maximum number of modules listed below one finding."""


def findings_sheet(subject: ExploredModel) -> Sheet:
    """The findings of `subject`, each with its modules as children."""
    document = subject.document
    groups = Groups()
    ranks = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    ordered = sorted(document.findings, key=lambda each: ranks.get(each.severity, len(ranks)))
    for finding in ordered:
        values = {
            "severity": SIGNS.get(finding.severity, finding.severity),
            "code": finding.code,
            "gain": short_gain(finding.gain),
            "places": len(finding.modules) or None,
            "advice": finding.advice,
            "verified": finding.verified or None,
        }
        first = finding.modules[0] if finding.modules else -1
        top = groups.add(finding.title, kind=finding.code, module=first, values=values)
        for at in finding.modules[:MAX_MODULES]:
            module = document.modules[at]
            groups.add(
                path_text(module.path), top, kind=finding.code, module=at, values={"advice": module.class_name}
            )
    columns = [
        groups.text("severity", "severity", "severity of the finding", widest=12),
        groups.text("code", "code", "code of the rule", widest=8),
        groups.text("gain", "gain", "what following the advice saves at most", widest=16),
        groups.number("places", "modules", "number of affected modules", units.exact, name="places"),
        groups.text("advice", "advice", "what to do about the finding", widest=70, name="what to do"),
        groups.text("verified", "verified", "how the advice was verified", on=False, widest=40),
    ]
    counts = Counter(finding.severity for finding in ordered)
    about = " · ".join(_severity_count(counts[each], each) for each in SEVERITIES if counts[each])
    return grouped(
        groups,
        id="findings",
        noun="finding",
        columns=columns,
        depth=0,
        about=about or "no findings",
        empty=subject.no_findings,
        biggest="places",
    )


def _severity_count(count: int, severity: str) -> str:
    return plural(count, "suggestion" if severity == "advice" else severity)
