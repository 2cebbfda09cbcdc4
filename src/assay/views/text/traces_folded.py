"""The layers of several traces, or of two compared, with the same layer of repeated blocks in one row."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analysis.name_ranges import FoldedName, fold_rows, odd_one, odd_text
from assay.analysis.parameters import sum_if_all_known
from assay.document.trace import LayerAcross, LayerChange

_QUIET = ("same", "unknown")
"""Verdicts of layers that share a row; every other change has its own."""


class FoldedAcross(LayerAcross, frozen=True, kw_only=True):
    """The same layer of repeated blocks: times added up, and the imbalance of the least balanced one."""

    note: str = ""


def folded_across(layers: Sequence[LayerAcross]) -> list[LayerAcross]:
    """The layers of several traces, one row for those that differ only in numbers and are in as many traces."""
    return fold_rows(layers, lambda row: row.name, lambda row: row.seen_in, _across)


def folded_changes(layers: Sequence[LayerChange]) -> list[LayerChange]:
    """The changes of layers, one row for those without a significant change that differ only in numbers."""

    def kind(row: LayerChange) -> str:
        return row.verdict if row.verdict in _QUIET else row.name

    return fold_rows(layers, lambda row: row.name, kind, _changed)


def _across(folded: FoldedName, rows: Sequence[LayerAcross]) -> LayerAcross:
    """The sums over `rows`; the spread of a sum is unknown."""
    odd = odd_one([float(row.median_ns) for row in rows])
    worst = max(rows, key=lambda row: row.imbalance or 0.0)
    return FoldedAcross(
        name=folded.counted,
        median_ns=sum(row.median_ns for row in rows),
        min_ns=sum(row.min_ns for row in rows),
        max_ns=sum(row.max_ns for row in rows),
        spread_ns=None,
        seen_in=rows[0].seen_in,
        slowest=worst.slowest,
        imbalance=worst.imbalance,
        note=odd_text(folded.text, rows[odd[0]].name, odd[1]) if odd else "",
    )


def _changed(folded: FoldedName, rows: Sequence[LayerChange]) -> LayerChange:
    """The sums over `rows`; differences up to the sum of their noise are not significant."""
    return LayerChange(
        name=folded.counted,
        before_ns=sum_if_all_known(row.before_ns for row in rows),
        after_ns=sum_if_all_known(row.after_ns for row in rows),
        change_ns=sum(row.change_ns for row in rows),
        noise_ns=sum_if_all_known(row.noise_ns for row in rows),
        verdict=rows[0].verdict,
    )
