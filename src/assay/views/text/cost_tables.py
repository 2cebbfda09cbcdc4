"""Tables of cost: the lines of a division with its figures, sorted, cut and drawn as asked.

Whatever is cut is gathered into one line, so every printed column of sums adds up to the printed total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from assay import units
from assay.document.cost import Cost, Totals
from assay.document.document import Document
from assay.views.tables import Column, Table
from assay.views.text.amounts import amounts, part_of, percent
from assay.views.text.cost_lines import DIVISIONS, Division, Line, gathered
from assay.views.text.trees import TREE_KEEPS, branches


@dataclass(frozen=True)
class Shown:
    """How much of a table is shown, in which order, and how exactly."""

    exact: bool = False
    top: int | None = None
    sort: str | None = None
    depth: int | None = None


@dataclass(frozen=True)
class _Figure:
    title: str
    get: Callable[[Line, Line], Any]
    """From a line and the whole."""
    kind: Literal["count", "size", "exact", "share", "ratio"]
    drops: bool = False


_FIGURES = {
    "share": _Figure("share", lambda line, whole: part_of(_inclusive(line).flops, _inclusive(whole).flops), "share"),
    "count": _Figure("count", lambda line, whole: line.own.ops, "exact"),
    "flops": _Figure("FLOPs", lambda line, whole: line.own.flops, "count"),
    "macs": _Figure("MACs", lambda line, whole: _macs(line.own), "count", drops=True),
    "bytes": _Figure("bytes", lambda line, whole: line.own.bytes, "size"),
    "intensity": _Figure("intensity", lambda line, whole: line.own.intensity, "ratio", drops=True),
    "each": _Figure("FLOPs each", lambda line, whole: line.each, "count", drops=True),
    "self": _Figure("self FLOPs", lambda line, whole: line.own.flops, "count"),
    "total": _Figure("total FLOPs", lambda line, whole: line.total.flops if line.total else None, "count"),
    "self_macs": _Figure("self MACs", lambda line, whole: _macs(line.own), "count", drops=True),
    "self_bytes": _Figure("self bytes", lambda line, whole: line.own.bytes, "size", drops=True),
    "total_bytes": _Figure(
        "total bytes", lambda line, whole: line.total.bytes if line.total else None, "size", drops=True
    ),
    "backward": _Figure(
        "backward self FLOPs", lambda line, whole: line.backward.flops if line.backward else None, "count"
    ),
    "unknown": _Figure("unknown ops", lambda line, whole: line.own.unknown_ops, "exact"),
}

SORTS: dict[str, Callable[[Line], float | int | None]] = {
    "flops": lambda line: line.own.flops,
    "macs": lambda line: _macs(line.own),
    "bytes": lambda line: line.own.bytes,
    "count": lambda line: line.own.ops,
    "intensity": lambda line: line.own.intensity,
    "total": lambda line: _inclusive(line).flops,
}
"""By what lines can be sorted, largest first; all of them are a line's own, but `total`."""


def cost_table(document: Document, cost: Cost, by: str, shown: Shown) -> Table:
    """The cost of `document` divided by one of `DIVISIONS`."""
    division = DIVISIONS[by](document, cost)
    lines, rest = _chosen(division, shown)
    names = [*division.figures, *(["unknown"] if division.whole.own.unknown_ops else [])]
    columns = [*_labels(division, lines, shown), *(_column(_FIGURES[name], shown.exact) for name in names)]

    def row(line: Line) -> list[Any]:
        return [*line.labels, *(_FIGURES[name].get(line, division.whole) for name in names)]

    return Table(columns, [row(line) for line in lines], [row(line) for line in (*rest, division.whole)])


def _chosen(division: Division, shown: Shown) -> tuple[list[Line], list[Line]]:
    """The lines that are shown, and those that stand for what is not."""
    lines = list(division.lines)
    rest = []
    if shown.depth is not None:
        deeper = [line for line in lines if line.depth > shown.depth]
        lines = [line for line in lines if line.depth <= shown.depth]
        rest += [gathered(f"({len(deeper)} deeper)", deeper)] if deeper else []
    if _sorted(division, shown):
        key = SORTS[shown.sort or "flops"]
        lines.sort(key=lambda line: _descending(key(line), line.own.bytes))
    if shown.top is not None and len(lines) > shown.top:
        others = lines[shown.top :]
        lines = lines[: shown.top]
        rest.append(gathered(f"({len(others)} others)", others))
    return lines, rest


def _sorted(division: Division, shown: Shown) -> bool:
    return not division.ordered or shown.sort is not None or shown.top is not None


def _descending(value: float | int | None, tie: int) -> tuple[bool, float | int, int]:
    """A key that puts the largest first and the unknown last."""
    return value is None, -(value or 0), -tie


def _labels(division: Division, lines: Sequence[Line], shown: Shown) -> list[Column]:
    """The label columns; names of a tree in its own order are drawn as a tree."""
    first, *others = division.labels
    if first.title != "module" or _sorted(division, shown):
        return [first, *others]
    trunks = branches([line.depth for line in lines])
    drawn = {
        line.labels[0]: trunk + (line.labels[0].rpartition(".")[2] if trunk else line.labels[0])
        for line, trunk in zip(lines, trunks, strict=True)
    }
    return [replace(first, show=lambda path: drawn.get(path, path), cuts=True, keeps=TREE_KEEPS), *others]


def _column(figure: _Figure, exact: bool) -> Column:
    written = amounts(exact)
    shows: dict[str, Callable[[Any], str]] = {
        "count": written.count,
        "size": written.size,
        "exact": units.exact,
        "share": percent,
        "ratio": units.ratio,
    }
    return Column(figure.title, "right", shows[figure.kind], drops=figure.drops)


def _inclusive(line: Line) -> Totals:
    return line.own if line.total is None else line.total


def _macs(sums: Totals) -> int | None:
    return sums.macs if sums.known else None
