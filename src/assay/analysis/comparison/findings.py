"""The findings of two documents: new, gone or still there."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from assay.analysis.comparison.rows import GONE, NEW, STILL_THERE, FindingChange
from assay.document.document import Document
from assay.document.findings import Finding


def finding_changes(before: Document, after: Document, before_of: Mapping[int, int]) -> list[FindingChange]:
    """One row per finding; `before_of` maps modules after the change to those before it.

    A finding is still there if the other document has one of the same rule with the same title, or about the same
    modules and tensors.
    """
    matched = _matched(before, after, before_of)
    rows = [
        _row(NEW if index not in matched else STILL_THERE, finding, matched.get(index), index)
        for index, finding in enumerate(after.findings)
    ]
    remaining = set(matched.values())
    gone = ((index, finding) for index, finding in enumerate(before.findings) if index not in remaining)
    return rows + [_row(GONE, finding, index, None) for index, finding in gone]


def _row(state: str, finding: Finding, before: int | None, after: int | None) -> FindingChange:
    return FindingChange(state, finding.code, finding.severity, finding.title, before, after)


def _matched(before: Document, after: Document, before_of: Mapping[int, int]) -> dict[int, int]:
    """The finding before for each finding after that has one."""

    def title(finding: Finding) -> Hashable:
        return finding.code, finding.title

    def places(finding: Finding) -> Hashable:
        return finding.code, frozenset(finding.modules), frozenset(finding.tensors)

    def places_before(finding: Finding) -> Hashable:
        # A module that was added has no counterpart; no module has a negative index.
        modules = frozenset(before_of.get(index, -1 - index) for index in finding.modules)
        return finding.code, modules, frozenset(finding.tensors)

    result: dict[int, int] = {}
    for old_key, new_key in ((title, title), (places, places_before)):
        waiting: dict[Hashable, list[int]] = {}
        used = set(result.values())
        for index in reversed(range(len(before.findings))):
            if index not in used:
                waiting.setdefault(old_key(before.findings[index]), []).append(index)
        for index, finding in enumerate(after.findings):
            candidates = waiting.get(new_key(finding)) if index not in result else None
            if candidates:
                result[index] = candidates.pop()
    return result
