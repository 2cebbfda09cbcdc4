"""The report about a checkpoint's tensors: a folded table, totals, and what stands out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isinf
from typing import Any

from assay import units
from assay.analysis.folding import Node, fold, run_name
from assay.document.document import Document
from assay.document.rows import Module
from assay.document.weights import Histogram, Outlier, TensorStatistics, WeightsReport
from assay.views import plots
from assay.views.tables import Column, Table
from assay.views.text.amounts import percent
from assay.views.text.params_lines import FIGURES, Line, lines_of, shown_name, sorted_lines
from assay.views.text.report import Report

_MOST = 20
"""Lines of a list of curiosities, unless everything was asked for."""
_SPARK = 16
_NAMES = 3


@dataclass(frozen=True)
class Shown:
    """What of a report is shown, and how."""

    full: bool = False
    sort: str | None = None
    top: int | None = None
    histogram: bool = False
    utf8: bool = True


def _ratio_text(value: float | None) -> str:
    return "exact" if value is not None and isinf(value) else units.ratio(value)


def _bits_text(value: float | None) -> str:
    return units.UNKNOWN if value is None else "> 8" if isinf(value) else f"{value:.0f}"


def _figure(title: str, show: Any = units.ratio) -> Column:
    return Column(title, "right", show, drops=True)


_HEADER = {
    "count": Column("count", "right", units.count),
    "bytes": Column("bytes", "right", units.size),
}
_STATISTICS = {
    "min": _figure("min"),
    "max": _figure("max"),
    "mean": _figure("mean"),
    "std": _figure("std"),
    "zeros": _figure("zeros", percent),
    "entropy": _figure("entropy"),
    "int8": _figure("int8 dB", _ratio_text),
    "int4": _figure("int4 dB", _ratio_text),
    "bits": _figure("bits", _bits_text),
}
_SPECTRAL = {
    "norm": _figure("spectral norm"),
    "bound": _figure("its bound ±"),
    "rank": _figure("stable rank"),
    "effective": _figure("effective rank"),
}
_NAME = Column("tensor", shrinks=True, keeps=16)
_DTYPES = (
    Column("dtype"),
    Column("tensors", "right", units.exact),
    Column("count", "right", units.count),
    Column("bytes", "right", units.size),
)
_OUTLIERS = (
    Column("tensor", shrinks=True),
    Column("figure"),
    Column("value", "right", units.ratio),
    Column("typical", "right", units.ratio),
    Column("deviations", "right", units.ratio),
)
_PROBLEMS = (Column("what", shrinks=True), Column("why", shrinks=True))
_PLOT = (Column("values", "right"), Column("how many"))
_NOTE = (Column("note", shrinks=True),)


def params_report(document: Document, shown: Shown = Shown()) -> Report:  # noqa: B008  it is frozen
    """Everything a person is told about the document's weights."""
    weights = document.weights
    assert weights is not None
    kept, others = chosen_lines(weights, shown)
    tensors = _tensors(weights, kept, others, shown)
    parts: list[str | Table] = [_headline(weights), tensors]
    for title, table in (
        ("Totals by dtype", _by_dtype(weights)),
        ("Tied names: one tensor each", _tied(weights, shown)),
        ("Duplicates: equal bytes", _duplicates(weights, shown)),
        ("Outliers among their kind", _outliers(weights, shown)),
        ("Not analysed", _problems(weights)),
        ("Modules", _modules(document.modules) if shown.full else Table(_NOTE, [])),
        ("Notes", Table(_NOTE, [[note] for note in _notes(document, weights, shown)], bare=True)),
    ):
        if table.rows:
            parts += [title, table]
    if shown.histogram:
        parts += _histograms(kept, shown)
    return Report(parts, tensors)


def chosen_lines(weights: WeightsReport, shown: Shown) -> tuple[list[Line], list[Line]]:
    """The lines to show, in their order, and the others."""
    lines = lines_of(weights, full=shown.full)
    if shown.sort is not None:
        lines = sorted_lines(lines, shown.sort)
    most = len(lines) if shown.top is None else shown.top
    return lines[:most], lines[most:]


def _headline(weights: WeightsReport) -> str:
    count, size = sum(t.count for t in weights.tensors), sum(t.bytes for t in weights.tensors)
    how = f", computed by {weights.kernel}" if weights.kernel else ""
    held = f"{_plural(len(weights.tensors), 'tensor')}, {units.count(count)} numbers, {units.size(size)}"
    return f"{weights.path}: {weights.format}, {held}{how}"


def _tensors(weights: WeightsReport, lines: Sequence[Line], others: Sequence[Line], shown: Shown) -> Table:
    figures = dict(_HEADER)
    if weights.kernel:
        figures |= _STATISTICS
        if any(tensor.spectral for tensor in weights.tensors):
            figures |= _SPECTRAL
    drawn = (Column("distribution", drops=True),) if weights.kernel else ()
    columns = (_NAME, Column("dtype"), Column("shape"), *figures.values(), *drawn, Column("note", shrinks=True))

    def row(line: Line) -> list[Any]:
        first = line.tensors[0]
        plot = [_spark(first.histogram, shown.utf8)] if drawn else []
        values = [FIGURES[key](line.tensors) for key in figures]
        return [line.name, first.dtype, units.shape(first.shape), *values, *plot, _remarks(line.tensors)]

    def sums(name: str, tensors: Sequence[TensorStatistics]) -> list[Any]:
        known = [FIGURES["count"](tensors), FIGURES["bytes"](tensors)]
        return [name, "", "", *known, *[""] * (len(columns) - 5)]

    left = [tensor for line in others for tensor in line.tensors]
    rest = [sums(f"{_plural(len(others), 'other line')}", left)] if left else []
    footer = [*rest, sums("total", weights.tensors)] if weights.tensors else []
    return Table([_with_gaps(column) for column in columns], [row(line) for line in lines], footer)


def _with_gaps(column: Column) -> Column:
    """The column, writing texts as they are: rows of sums are empty where there is nothing to add up."""
    return replace(column, show=lambda value: value if isinstance(value, str) else column.show(value))


def _remarks(tensors: Sequence[TensorStatistics]) -> str:
    """What is odd about the tensors of a line."""
    said = [
        f"{units.exact(count)} {what}"
        for what, count in (
            ("NaN", FIGURES["nan"](tensors)),
            ("infinite", sum(tensor.inf or 0 for tensor in tensors)),
            ("dead rows", sum(tensor.rows.dead for tensor in tensors if tensor.rows)),
            ("dead columns", sum(tensor.columns.dead for tensor in tensors if tensor.columns)),
        )
        if count
    ]
    said += dict.fromkeys(text for tensor in tensors for text in (tensor.problem, tensor.note) if text)
    return "; ".join(said)


def _spark(histogram: Histogram | None, utf8: bool) -> str:
    return plots.area(histogram.counts, width=_SPARK, height=1, utf8=utf8)[0] if histogram else ""


def _histograms(lines: Iterable[Line], shown: Shown) -> list[str | Table]:
    """A drawing for each line; a line of several tensors is drawn by its first."""
    parts: list[str | Table] = []
    for line in lines:
        histogram = line.tensors[0].histogram
        if histogram is None:
            continue
        drawn = plots.area(histogram.counts, utf8=shown.utf8)
        most = units.exact(max(histogram.counts))
        labels = [most, *[""] * (len(drawn) - 1)]
        axis = f"{units.ratio(histogram.low)} … {units.ratio(histogram.high)}"
        rows = [list(row) for row in zip([*labels, ""], [*drawn, axis], strict=True)]
        of = f" (of {shown_name(line.tensors[0])})" if len(line.tensors) > 1 else ""
        parts += [f"Histogram: {line.name}{of}", Table(_PLOT, rows, bare=True)]
    return parts


def _by_dtype(weights: WeightsReport) -> Table:
    return Table(_DTYPES, [[name, sums.tensors, sums.count, sums.bytes] for name, sums in weights.by_dtype.items()])


def _tied(weights: WeightsReport, shown: Shown) -> Table:
    tied = [tensor.names for tensor in weights.tensors if len(tensor.names) > 1]
    return _listed((" = ".join(names) for names in tied), len(tied), shown)


def _duplicates(weights: WeightsReport, shown: Shown) -> Table:
    def said(group: tuple[int, ...]) -> str:
        names = [shown_name(weights.tensors[row]) for row in group]
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES and not shown.full else ""
        once = units.size(weights.tensors[group[0]].bytes)
        return f"{' = '.join(names if shown.full else names[:_NAMES])}{more}: {once} each"

    return _listed(map(said, weights.duplicates), len(weights.duplicates), shown)


def _listed(lines: Iterable[str], count: int, shown: Shown) -> Table:
    most = count if shown.full else _MOST
    rows = [[line] for _, line in zip(range(most), lines, strict=False)]
    if count > most:
        rows.append([f"… and {count - most} more (--full)"])
    return Table(_NOTE, rows, bare=True)


def _outliers(weights: WeightsReport, shown: Shown) -> Table:
    def row(outlier: Outlier) -> list[Any]:
        name = shown_name(weights.tensors[outlier.tensor])
        return [name, outlier.figure, outlier.value, outlier.typical, outlier.deviations]

    most = len(weights.outliers) if shown.full else _MOST
    return Table(_OUTLIERS, [row(outlier) for outlier in weights.outliers[:most]])


def _problems(weights: WeightsReport) -> Table:
    """Every shard and tensor without figures; tensors with the same trouble on one line."""
    by_problem: dict[str, list[str]] = {}
    for tensor in weights.tensors:
        if tensor.problem:
            by_problem.setdefault(tensor.problem, []).append(shown_name(tensor))
    rows = [[", ".join(names), problem] for problem, names in by_problem.items()]
    return Table(_PROBLEMS, [*([failure, ""] for failure in weights.files_lost), *rows])


def _notes(document: Document, weights: WeightsReport, shown: Shown) -> Iterator[str]:
    yield from weights.notes
    if document.modules and not shown.full:
        yield f"it holds a tree of {_plural(len(document.modules), 'module')} (--full shows it)"


def _modules(modules: Sequence[Module]) -> Table:
    nodes = [Node(module.path.rpartition(".")[2], module.parent, module.class_path) for module in modules]
    rows = []
    for row in fold(nodes):
        module = modules[row.members[0]]
        name = run_name(nodes[row.members[0]].name, row.run) or "(root)"
        rows.append([f"{'  ' * row.depth}{name}: {module.class_name}"])
    return Table(_NOTE, rows, bare=True)


def _plural(count: int, noun: str) -> str:
    return f"{units.exact(count)} {noun}{'' if count == 1 else 's'}"
