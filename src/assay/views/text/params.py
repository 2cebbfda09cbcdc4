"""The report on a checkpoint's tensors: a table with repeated blocks folded, totals, duplicates and outliers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isinf
from typing import Any

from assay import units
from assay.analysis.folding import TreeNode, fold, row_name
from assay.analysis.name_ranges import fold_names
from assay.document.document import Document
from assay.document.rows import Module
from assay.document.weights import Histogram, Outlier, TensorStatistics, WeightsReport, WeightTotals
from assay.messages import plural
from assay.views import plots
from assay.views.partial import marked_total
from assay.views.tables import Column, Table, percent
from assay.views.text.facts import notes_table, reasons_table
from assay.views.text.histogram_plot import histogram_picture
from assay.views.text.params_lines import (
    STATISTICS,
    TensorRow,
    lines_of,
    mean_assessed,
    recommendation,
    sensitivity,
    shown_name,
    sorted_lines,
)
from assay.views.text.params_more import decibels, more_columns
from assay.views.text.params_remarks import remarks
from assay.views.text.report import Parts, Picture, Report, section

_MAX_LISTED = 20
"""Rows of each list of ties, duplicates and outliers, unless `full`."""
_LISTED = 8
"""Names of tensors that were not analysed, for each reason."""
_MAX_ROWS = 20_000
"""Rows of the table, unless `full`: laying out more takes a lot of memory."""
_SPARK_WIDTH = 10
_MIN_TREND = 3
"""Rows of fewer tensors have no trend."""
_MAX_NAMES = 3


@dataclass(frozen=True)
class ParamsOptions:
    """Which rows of the report are shown, in which order, and with which pictures."""

    full: bool = False
    sort: str | None = None
    top: int | None = None
    histogram: bool = False


def _bits_text(value: float | None) -> str:
    return units.UNKNOWN if value is None else "> 8" if isinf(value) else f"{value:.0f}"


def between(bounds: tuple[float, float] | None) -> str:
    """The bounds of a figure: `32.4–126`; one number if both are equal."""
    return units.UNKNOWN if bounds is None else "–".join(dict.fromkeys(map(units.ratio, bounds)))


def _figure(title: str, key: str, show: Any = units.ratio, *, drops: float) -> Column[TensorRow]:
    return Column(title, lambda row: STATISTICS[key](row.tensors), "right", show, drops=drops, name=key)


_STATISTICS = (
    _figure("min", "min", drops=3),
    _figure("max", "max", drops=3),
    _figure("mean", "mean", drops=4),
    _figure("std", "std", drops=0),
    _figure("zeros", "zeros", percent, drops=5),
    _figure("kurtosis", "kurtosis", drops=8),
    _figure("L2 norm", "l2", drops=8),
    _figure("entropy (64 bins)", "entropy", drops=6),
    _figure("entropy-coded", "coded", units.size, drops=8.5),
    _figure("int8 dB", "int8", decibels, drops=5),
    _figure("int4 dB", "int4", decibels, drops=7),
    _figure("bits", "bits", _bits_text, drops=7),
    Column[TensorRow](
        "pruning potential",
        lambda row: mean_assessed("pruning_potential", row.tensors, row.assessments),
        "right",
        percent,
        drops=9,
        name="prunable",
    ),
    Column[TensorRow](
        "quantization sensitivity", lambda row: sensitivity(row.assessments), drops=9, name="sensitivity"
    ),
    Column[TensorRow]("recommendation", lambda row: recommendation(row.assessments), drops=9, shrinks=True),
)
_SPECTRAL = (
    _figure("spectral norm", "norm", drops=2),
    _figure("norm error", "bound", drops=8),
    _figure("stable rank", "rank", drops=3),
    _figure("effective rank", "effective", between, drops=8),
)

_DISTRIBUTION = Column[TensorRow](
    "histogram", lambda row: _spark(row.tensors[0].histogram), drops=True, name="distribution"
)
_TREND = Column[TensorRow]("trend", lambda row: _trend(row.tensors), drops=4)
_OF_VALUES = (*_STATISTICS, *_SPECTRAL, _DISTRIBUTION, _TREND)
_ROLE = Column[TensorRow]("role", lambda row: row.tensors[0].role or None, drops=9)


def _not_finite(title: str, key: str) -> Column[TensorRow]:
    def paint(row: object) -> str:
        return _RED if isinstance(row, TensorRow) and STATISTICS[key](row.tensors) else ""

    return replace(_figure(title, key, units.exact, drops=0), paint=paint)


_RED = "31"
_NOT_FINITE = (_not_finite("NaN", "nan"), _not_finite("infinite", "inf"))
"""Shown if there are any."""


def params_report(document: Document, options: ParamsOptions = ParamsOptions()) -> Report:
    """The report on the document's weights."""
    weights = document.weights
    assert weights is not None
    lines, omitted = chosen_lines(weights, options)
    tensors = _tensors(weights, lines, omitted, options)
    parts: Parts = [
        *section(f"Tensors ({weights.kernel} kernel)" if weights.kernel else "Tensors", tensors),
        *([] if weights.tensors else [notes_table(["no tensors"])]),
        *section(marked_total("Totals by dtype", partial=weights.partial), _totals("dtype", weights.by_dtype)),
        *section(marked_total("Totals by role", partial=weights.partial), _totals("role", weights.by_role)),
        *section("Tied names (one tensor each)", _tied(weights, options)),
        *section("Duplicates (equal bytes)", _duplicates(weights, options)),
        *section("Outliers within their family", _outliers(weights, options)),
        *section("Not analysed", _problems(weights)),
        *section("Modules", _modules(document.modules if options.full else [])),
        *section("Notes", notes_table(_notes(document, weights, options))),
        *(_histograms(lines) if options.histogram else []),
    ]
    return Report(parts, tensors)


def tables_without_rows() -> list[Table]:
    """The tables that can be chosen from, to check the names of columns before any values are read."""
    nothing, options = WeightsReport(), ParamsOptions()
    return [
        _tensors(nothing, (), (), options),
        _totals("dtype", {}),
        _totals("role", {}),
        _outliers(nothing, options),
    ]


def chosen_lines(weights: WeightsReport, options: ParamsOptions) -> tuple[list[TensorRow], list[TensorRow]]:
    """The rows to show, in order, and the rows to omit."""
    lines = lines_of(weights, full=options.full)
    if options.sort is not None:
        lines = sorted_lines(lines, options.sort)
    most = len(lines) if options.full else _MAX_ROWS
    count = most if options.top is None else options.top
    return lines[:count], lines[count:]


def _tensors(
    weights: WeightsReport, lines: Sequence[TensorRow], omitted: Sequence[TensorRow], options: ParamsOptions
) -> Table:
    columns = _columns(weights)
    extra = [one for one in (_ROLE, *_NOT_FINITE, *_OF_VALUES, *more_columns()) if one not in columns]
    columns += [one for one in extra if one.key == options.sort]
    columns = [replace(one, drops=0) if one.key == options.sort else one for one in columns]

    def sums(name: str, tensors: Sequence[TensorStatistics]) -> dict[str, Any]:
        return {"name": name, "count": STATISTICS["count"](tensors), "bytes": STATISTICS["bytes"](tensors)}

    remaining = [tensor for line in omitted for tensor in line.tensors]
    hint = "" if options.full or options.top is not None else ": see --full"
    rest = [sums(f"({plural(len(omitted), 'more row')}{hint})", remaining)] if remaining else []
    footer = [*rest, sums(marked_total("total", partial=weights.partial), weights.tensors)] if weights.tensors else []
    return Table(columns, lines, footer, extra=extra)


def _columns(weights: WeightsReport) -> list[Column[TensorRow]]:
    columns: list[Column[TensorRow]] = [
        Column("tensor", lambda row: row.name, shrinks=True, cuts="middle", name="name"),
        Column("dtype", lambda row: row.tensors[0].dtype, drops=2 if len(weights.by_dtype) == 1 else 0.5),
        *([_ROLE] if weights.by_role else []),
        Column("shape", lambda row: units.shape(row.tensors[0].shape), drops=0.6),
        Column("count", lambda row: STATISTICS["count"](row.tensors), "right", units.count, drops=5),
        Column("bytes", lambda row: STATISTICS["bytes"](row.tensors), "right", units.size),
    ]
    if weights.kernel:
        columns += [one for one in _NOT_FINITE if STATISTICS[one.key](weights.tensors)]
        columns += _STATISTICS
        columns += _SPECTRAL if any(tensor.spectral for tensor in weights.tensors) else ()
        columns += (_DISTRIBUTION, _TREND)
    return [*columns, Column("note", remarks, shrinks=True, keeps=-8)]


def _spark(histogram: Histogram | None) -> str:
    return plots.sparkline(histogram.counts, _SPARK_WIDTH) if histogram else ""


def _trend(tensors: Sequence[TensorStatistics]) -> str:
    """The standard deviations of several tensors in order, drawn from 0; empty for few tensors."""
    if len(tensors) < _MIN_TREND:
        return ""
    return plots.sparkline([tensor.std or 0.0 for tensor in tensors], _SPARK_WIDTH)


def _histograms(lines: Iterable[TensorRow]) -> Iterator[Picture]:
    """One histogram per row; a row of several tensors shows that of its first tensor."""
    for line in lines:
        histogram = line.tensors[0].histogram
        of = f" (of {shown_name(line.tensors[0])})" if len(line.tensors) > 1 else ""
        if histogram is not None:
            yield histogram_picture(f"{line.name}{of}", histogram)


def _totals(title: str, totals: Mapping[str, WeightTotals]) -> Table:
    """One row per dtype or role."""
    columns: tuple[Column[str], ...] = (
        Column(title, str),
        Column("tensors", lambda key: totals[key].tensors, "right", units.exact),
        Column("count", lambda key: totals[key].count, "right", units.count),
        Column("bytes", lambda key: totals[key].bytes, "right", units.size),
    )
    return Table(columns, list(totals))


def _tied(weights: WeightsReport, options: ParamsOptions) -> Table:
    tied = [tensor.names for tensor in weights.tensors if len(tensor.names) > 1]
    return _listed((" = ".join(names) for names in tied), len(tied), options)


def _duplicates(weights: WeightsReport, options: ParamsOptions) -> Table:
    def group_text(group: tuple[int, ...]) -> str:
        all_names = [shown_name(weights.tensors[row]) for row in group]
        names = all_names if options.full else [one.counted for one in fold_names(all_names)]
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES and not options.full else ""
        size = units.size(weights.tensors[group[0]].bytes)
        return f"{' = '.join(names if options.full else names[:_MAX_NAMES])}{more}: {size} each"

    return _listed(map(group_text, weights.duplicates), len(weights.duplicates), options)


def _listed(lines: Iterable[str], count: int, options: ParamsOptions) -> Table:
    shown = count if options.full else _MAX_LISTED
    more = [f"… and {count - shown} more (see --full)"] if count > shown else []
    return notes_table([*islice(lines, shown), *more])


def _outliers(weights: WeightsReport, options: ParamsOptions) -> Table:
    columns: tuple[Column[Outlier], ...] = (
        Column("tensor", lambda outlier: shown_name(weights.tensors[outlier.tensor]), shrinks=True),
        Column("statistic", lambda outlier: outlier.figure),
        Column("value", lambda outlier: outlier.value, "right", units.ratio),
        Column("family median", lambda outlier: outlier.typical, "right", units.ratio),
        Column("deviations", lambda outlier: outlier.deviations, "right", units.ratio),
    )
    return Table(columns, weights.outliers).first(None if options.full else _MAX_LISTED)


def _folded_names(names: Sequence[str]) -> str:
    """The folded names; of many, the first ones."""
    folded = [one.counted for one in fold_names(names, indices=True)]
    more = len(folded) - _LISTED
    return ", ".join(folded[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _problems(weights: WeightsReport) -> Table:
    """Shards and tensors that could not be analysed, with the reason; one row per reason."""
    by_problem: dict[str, list[str]] = {}
    for tensor in weights.tensors:
        if tensor.problem:
            by_problem.setdefault(tensor.problem, []).append(shown_name(tensor))
    problems = [(_folded_names(names), problem) for problem, names in by_problem.items()]
    return reasons_table([*((failure, "") for failure in weights.files_lost), *problems])


def _notes(document: Document, weights: WeightsReport, options: ParamsOptions) -> Iterator[str]:
    yield from weights.notes
    if document.modules and not options.full:
        yield f"the model has {plural(len(document.modules), 'module')} (list them with --full)"


def _modules(modules: Sequence[Module]) -> Table:
    nodes = [TreeNode(module.path.rpartition(".")[2], module.parent, module.class_path) for module in modules]
    lines = []
    for row in fold(nodes):
        name = row_name(nodes, row) or "(root)"
        lines.append(f"{'  ' * row.depth}{name}: {modules[row.members[0]].class_name}")
    return notes_table(lines)
