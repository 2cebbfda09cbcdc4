"""The ops of two forward passes, counted by name."""

from __future__ import annotations

from collections import Counter

from assay.analysis.comparison.rows import ADDED, CHANGED, REMOVED, SAME, OpChange
from assay.document.document import Document


def op_changes(before: Document, after: Document) -> list[OpChange]:
    """One row per name of an op that ran in either pass."""
    old, new = _executions(before), _executions(after)
    names = dict.fromkeys((*(old or {}), *(new or {})))
    return [_change(name, *(None if side is None else side[name] for side in (old, new))) for name in names]


def _executions(document: Document) -> Counter[str] | None:
    """The number of executions by name; None if no pass was recorded."""
    if not document.recorded:
        return None
    return Counter(document.kinds[op.kind].name for op in document.ops)


def _change(name: str, before: int | None, after: int | None) -> OpChange:
    if before is None or after is None or before == after:
        return OpChange(name, SAME, before, after)
    return OpChange(name, ADDED if not before else REMOVED if not after else CHANGED, before, after)
