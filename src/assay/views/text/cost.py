"""The report of what a model costs and its tables: the lines of a division, sorted, cut and drawn as asked.

Whatever is cut is gathered into one line, so every printed column of sums adds up to the printed total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from assay import units
from assay.document.cost import Cost, CostTotals
from assay.document.document import Document
from assay.views.tables import Column, Table
from assay.views.text.amounts import amounts, part_of, percent
from assay.views.text.cost_lines import DIVISIONS, CostBreakdown, CostRow, gathered
from assay.views.text.report import Report
from assay.views.text.totals import totals_tables
from assay.views.text.trees import TREE_KEEPS, branches

HEAVIEST = 10
"""Kinds of operation that the report lists."""


@dataclass(frozen=True)
class CostOptions:
    """How much of a table is shown, in which order, and how exactly."""

    exact: bool = False
    top: int | None = None
    sort: str | None = None
    depth: int | None = None


@dataclass(frozen=True)
class _Figure:
    title: str
    of: Callable[[CostRow], Any]
    kind: Literal["count", "size", "exact", "share", "ratio"]
    drops: bool = False


_FIGURES = {
    "share": _Figure("share", lambda row: _inclusive(row).flops, "share"),
    "count": _Figure("count", lambda row: row.own.ops, "exact"),
    "flops": _Figure("FLOPs", lambda row: row.own.flops, "count"),
    "macs": _Figure("MACs", lambda row: _macs(row.own), "count", drops=True),
    "bytes": _Figure("bytes", lambda row: row.own.bytes, "size"),
    "intensity": _Figure("intensity", lambda row: row.own.intensity, "ratio", drops=True),
    "each": _Figure("FLOPs each", lambda row: row.each, "count", drops=True),
    "self": _Figure("self FLOPs", lambda row: row.own.flops, "count"),
    "total": _Figure("total FLOPs", lambda row: row.total.flops if row.total else None, "count"),
    "self_macs": _Figure("self MACs", lambda row: _macs(row.own), "count", drops=True),
    "self_bytes": _Figure("self bytes", lambda row: row.own.bytes, "size", drops=True),
    "total_bytes": _Figure("total bytes", lambda row: row.total.bytes if row.total else None, "size", drops=True),
    "backward": _Figure("backward self FLOPs", lambda row: row.backward.flops if row.backward else None, "count"),
    "unknown": _Figure("unknown ops", lambda row: row.own.unknown_ops, "exact"),
}
"""A share is that of its value in the value of the whole."""

SORTS: dict[str, Callable[[CostRow], float | int | None]] = {
    **{name: _FIGURES[name].of for name in ("flops", "macs", "bytes", "count", "intensity")},
    "total": _FIGURES["share"].of,
}
"""By what lines can be sorted, largest first; all of them are a line's own, but `total`."""


def cost_report(document: Document, cost: Cost, options: CostOptions) -> Report:
    """What a person wants to know first; its data are the types of operation."""
    kinds = CostOptions(options.exact, HEAVIEST if options.top is None else options.top, options.sort)
    types = cost_table(document, cost, "category", CostOptions(options.exact, sort=options.sort))
    return Report(
        [
            _title(document, cost),
            *totals_tables(document, cost, amounts(options.exact)),
            "By type of operation",
            types,
            "Heaviest kinds",
            cost_table(document, cost, "kind", kinds),
        ],
        types,
    )


def cost_table(document: Document, cost: Cost, by: str, options: CostOptions) -> Table:
    """The cost of `document` divided by one of `DIVISIONS`."""
    division = DIVISIONS[by](document, cost)
    lines, rest = _chosen(division, options)
    names = [*division.figures, *(["unknown"] if division.whole.own.unknown_ops else [])]
    figures = [_column(_FIGURES[name], division.whole, options.exact) for name in names]
    return Table([*_labels(division, lines, options), *figures], lines, [*rest, division.whole])


def _title(document: Document, cost: Cost) -> str:
    passes = "one forward pass" if cost.backward is None else "one forward and one backward pass"
    return f"{document.model_class or 'model'}: {passes}"


def _chosen(division: CostBreakdown, options: CostOptions) -> tuple[list[CostRow], list[CostRow]]:
    """The lines that are shown, and those that stand for what is not."""
    lines = list(division.lines)
    rest = []
    if options.depth is not None:
        deeper = [line for line in lines if line.depth > options.depth]
        lines = [line for line in lines if line.depth <= options.depth]
        rest += [gathered(f"({len(deeper)} deeper)", deeper)] if deeper else []
    if _sorted(division, options):
        key = SORTS[options.sort or "flops"]
        lines.sort(key=lambda line: _descending(key(line), line.own.bytes))
    if options.top is not None and len(lines) > options.top:
        others = lines[options.top :]
        lines = lines[: options.top]
        rest.append(gathered(f"({len(others)} others)", others))
    return lines, rest


def _sorted(division: CostBreakdown, options: CostOptions) -> bool:
    return not division.ordered or options.sort is not None or options.top is not None


def _descending(value: float | int | None, tie: int) -> tuple[bool, float | int, int]:
    """A key that puts the largest first and the unknown last."""
    return value is None, -(value or 0), -tie


def _labels(division: CostBreakdown, lines: Sequence[CostRow], options: CostOptions) -> list[Column[CostRow]]:
    """The label columns; names of a tree in its own order are drawn as a tree."""
    first, *others = division.labels
    if not division.is_tree or _sorted(division, options):
        return [first, *others]
    trunks = branches([line.depth for line in lines])
    paths = [first.of(line) for line in lines]
    drawn = {
        path: trunk + (path.rpartition(".")[2] if trunk else path) for path, trunk in zip(paths, trunks, strict=True)
    }
    return [replace(first, show=lambda path: drawn.get(path, path), cuts=True, keeps=TREE_KEEPS), *others]


def _column(figure: _Figure, whole: CostRow, exact: bool) -> Column[CostRow]:
    written = amounts(exact)
    shows: dict[str, Callable[[Any], str]] = {
        "count": written.count,
        "size": written.size,
        "exact": units.exact,
        "share": percent,
        "ratio": units.ratio,
    }

    def share(row: CostRow) -> float | None:
        return part_of(figure.of(row), figure.of(whole))

    of = share if figure.kind == "share" else figure.of
    return Column(figure.title, of, "right", shows[figure.kind], drops=figure.drops)


def _inclusive(line: CostRow) -> CostTotals:
    return line.own if line.total is None else line.total


def _macs(sums: CostTotals) -> int | None:
    return sums.macs if sums.known else None
