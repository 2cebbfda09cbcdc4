"""The cost report and its tables: the rows of a breakdown, sorted and limited by `CostOptions`.

Omitted rows are summed in one row, so every column of sums adds up to the printed total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from assay import units
from assay.document.cost import Cost, CostTotals
from assay.document.document import Document
from assay.views.choosing import spelled
from assay.views.tables import Column, Table, percent
from assay.views.text.amounts import amounts, if_recorded, part_of
from assay.views.text.cost_lines import BREAKDOWNS, FOLDED, CostBreakdown, CostRow, gathered
from assay.views.text.report import Report
from assay.views.text.totals import totals_tables
from assay.views.text.trees import TREE_KEEPS, branches

HEAVIEST = 10
"""Number of kinds of op in the report."""


@dataclass(frozen=True)
class CostOptions:
    """Which rows of a cost table are shown, in which order, and with how many digits."""

    exact: bool = False
    top: int | None = None
    sort: str | None = None
    depth: int | None = None
    full: bool = True
    """Whether modules of repeated blocks have their own rows."""


@dataclass(frozen=True)
class _Figure:
    title: str
    of: Callable[[CostRow], Any]
    kind: Literal["count", "size", "exact", "share", "ratio"]
    drops: bool = False


_FIGURES = {
    "share": _Figure("share", lambda row: None if row.overlapping else _inclusive(row).flops, "share"),
    "count": _Figure("count", lambda row: if_recorded(row.own.ops, row.own), "exact"),
    "flops": _Figure("FLOPs", lambda row: row.own.flops, "count"),
    "macs": _Figure("MACs", lambda row: _macs(row.own), "count", drops=True),
    "bytes": _Figure("bytes", lambda row: _bytes(row.own), "size"),
    "intensity": _Figure("intensity", lambda row: row.own.intensity, "ratio", drops=True),
    "each": _Figure("FLOPs each", lambda row: row.each, "count", drops=True),
    "self": _Figure("self FLOPs", lambda row: row.own.flops, "count"),
    "total": _Figure("total FLOPs", lambda row: row.total.flops if row.total else None, "count"),
    "self_macs": _Figure("self MACs", lambda row: _macs(row.own), "count", drops=True),
    "self_bytes": _Figure("self bytes", lambda row: _bytes(row.own), "size", drops=True),
    "total_bytes": _Figure("total bytes", lambda row: _bytes(row.total) if row.total else None, "size", drops=True),
    "backward": _Figure("backward self FLOPs", lambda row: _backward(row), "count"),
    "unknown": _Figure("unknown ops", lambda row: if_recorded(row.own.unknown_ops, row.own), "exact"),
}
"""The columns by name; a column of kind `share` shows its value as a share of the total."""

SORTS: dict[str, Callable[[CostRow], float | int | None]] = {
    **{name: _FIGURES[name].of for name in ("flops", "macs", "bytes", "count", "intensity")},
    "total": _FIGURES["share"].of,
}
"""Sort keys, largest first. `total` includes submodules; all others are a row's own values."""


def cost_report(document: Document, cost: Cost, options: CostOptions) -> Report:
    """Totals, costs by type of op, and the most expensive kinds; CSV and JSON lines contain the types of op."""
    totals = totals_tables(document, cost, amounts(options.exact))
    kinds = CostOptions(options.exact, HEAVIEST if options.top is None else options.top, options.sort)
    types = cost_table(document, cost, "category", CostOptions(options.exact, sort=options.sort))
    if not document.recorded:
        return Report([_title(document, cost), *totals], types)
    return Report(
        [
            _title(document, cost),
            *totals,
            "By type of op",
            types,
            "Most expensive kinds of op",
            cost_table(document, cost, "kind", kinds),
        ],
        types,
    )


def cost_table(document: Document, cost: Cost, by: str, options: CostOptions) -> Table:
    """The cost of `document` broken down by one of the keys of `DIVISIONS`."""
    breakdown = (BREAKDOWNS if options.full else FOLDED)[by](document, cost)
    lines, rest = _selected_lines(breakdown, options)
    names = [*breakdown.figures, *(["unknown"] if _FIGURES["unknown"].of(breakdown.whole) else [])]
    figures = [_column(_FIGURES[name], breakdown.whole, options.exact) for name in names]
    figures = [replace(one, drops=0) if spelled(one.title).split()[-1] == options.sort else one for one in figures]
    return Table([*_labels(breakdown, lines, options), *figures], lines, [*rest, breakdown.whole])


def _title(document: Document, cost: Cost) -> str:
    name = document.model_class or document.origin.name or "model"
    if not document.recorded:
        return f"{name}: no forward pass was recorded"
    return f"{name}: {'one forward pass' if cost.backward is None else 'one forward and one backward pass'}"


def _selected_lines(breakdown: CostBreakdown, options: CostOptions) -> tuple[list[CostRow], list[CostRow]]:
    """The rows to show, and the footer rows that sum the omitted ones."""
    lines = list(breakdown.lines)
    rest = []
    if options.depth is not None:
        deeper = [line for line in lines if line.depth > options.depth]
        lines = [line for line in lines if line.depth <= options.depth]
        rest += [gathered(f"({len(deeper)} deeper)", deeper)] if deeper else []
    if _is_sorted(breakdown, options):
        key = SORTS[options.sort or "flops"]
        lines.sort(key=lambda line: _descending(key(line), line.own.bytes))
    if options.top is not None and len(lines) > options.top:
        omitted = lines[options.top :]
        lines = lines[: options.top]
        rest.append(gathered(f"({len(omitted)} more)", omitted))
    return lines, rest


def _is_sorted(breakdown: CostBreakdown, options: CostOptions) -> bool:
    return not breakdown.ordered or options.sort is not None or options.top is not None


def _descending(value: float | int | None, tie: int) -> tuple[bool, float | int, int]:
    """A sort key that puts the largest value first and unknown values last."""
    return value is None, -(value or 0), -tie


def _labels(breakdown: CostBreakdown, lines: Sequence[CostRow], options: CostOptions) -> list[Column[CostRow]]:
    """The label columns; unless the rows are sorted, module names are shown as a tree."""
    first, *others = breakdown.labels
    if not breakdown.is_tree or _is_sorted(breakdown, options):
        return [first, *others]
    trunks = branches([line.depth for line in lines])
    paths = [first.of(line) for line in lines]
    tree_names = {
        path: trunk + (path.rpartition(".")[2] if trunk else path) for path, trunk in zip(paths, trunks, strict=True)
    }
    return [replace(first, show=lambda path: tree_names.get(path, path), cuts="middle", keeps=TREE_KEEPS), *others]


def _column(figure: _Figure, whole: CostRow, exact: bool) -> Column[CostRow]:
    formats = amounts(exact)
    shows: dict[str, Callable[[Any], str]] = {
        "count": formats.count,
        "size": formats.size,
        "exact": units.exact,
        "share": percent,
        "ratio": units.ratio,
    }

    def share(row: CostRow) -> float | None:
        return part_of(figure.of(row), figure.of(whole))

    of = share if figure.kind == "share" else figure.of
    return Column(figure.title, of, "right", shows[figure.kind], drops=figure.drops, bar=figure.kind == "share")


def _inclusive(line: CostRow) -> CostTotals:
    return line.own if line.total is None else line.total


def _backward(row: CostRow) -> int | None:
    return row.backward.flops if row.backward is not None and row.own.recorded else None


def _bytes(sums: CostTotals) -> int | None:
    return if_recorded(sums.bytes, sums)


def _macs(sums: CostTotals) -> int | None:
    return sums.macs if sums.known else None
