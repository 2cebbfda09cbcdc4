"""How much of the measured time some ops take: evidence, and text for titles."""

from __future__ import annotations

from collections.abc import Iterable

from assay import units
from assay.document.provenance import Figure
from assay.findings.facts import ModelFacts
from assay.findings.gains import removed_ops


def time_evidence(facts: ModelFacts, ops: Iterable[int]) -> dict[str, Figure]:
    """The measured time of `ops` and its share of the pass; empty if the pass was not timed."""
    if not facts.measured:
        return {}
    spent = removed_ops(facts, ops)
    return {"time_s": spent.amount, "share_of_time": spent.share}


def share_of_time(facts: ModelFacts, ops: Iterable[int]) -> float | None:
    """The share of `ops` in the measured time; None if it is unknown."""
    return removed_ops(facts, ops).share.value if facts.measured else None


def time_text(facts: ModelFacts, ops: Iterable[int]) -> str:
    """`2.5 % of the time`; empty if the time of `ops` was not measured."""
    share = share_of_time(facts, ops)
    return "" if share is None else f"{units.share(share, 1)} of the time"
