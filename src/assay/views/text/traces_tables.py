"""The tables of one trace: by layer, op, kernel or step, as text and as data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay import units
from assay.analysis.name_ranges import FoldedName, fold_rows, odd_one, odd_text
from assay.analysis.parameters import sum_of_known
from assay.document.trace import KernelTimes, LayerTimes, OpTimes, Spread, StepTimes, Trace
from assay.messages import plural
from assay.views.tables import Column, Row, Table

OUTSIDE = "outside any module: "
UNATTRIBUTED = "no layer known: "


@dataclass(frozen=True)
class TraceOptions:
    """The breakdown of a trace to show, its order, and its number of rows."""

    by: str = "layer"
    sort: str | None = None
    top: int | None = None
    full: bool = False
    """Whether the layers of repeated blocks have their own rows in text."""


def duration(value: int | None) -> str:
    """Nanoseconds as text with a suitable unit."""
    return units.seconds(None if value is None else value / 1e9)


@dataclass(frozen=True)
class TraceBreakdown:
    """One breakdown of a trace: its title, and the functions that build its table as text and as data."""

    title: str
    table: Callable[[Trace, TraceOptions], Table]
    data: Callable[[Trace, TraceOptions], Table]


def time_column(title: str, of: Callable[[Row], int | None], name: str = "", *, drops: bool = False) -> Column[Row]:
    """A column of nanoseconds."""
    return Column(title, of, "right", duration, drops=drops, name=name)


def _count(title: str, of: Callable[[Row], int | None], *, drops: bool = False) -> Column[Row]:
    return Column(title, of, "right", units.exact, drops=drops)


def _size(title: str, of: Callable[[Row], int | None], name: str) -> Column[Row]:
    return Column(title, of, "right", units.size, drops=True, name=name)


def _per_call(*, median_drops: bool = True) -> tuple[Column[Any], ...]:
    return (
        time_column("min", lambda row: row.per_call.min_ns, "min_ns", drops=True),
        time_column("median", lambda row: _of_one(row, row.per_call.median_ns), "median_ns", drops=median_drops),
        time_column("p95", lambda row: _of_one(row, row.per_call.p95_ns), "p95_ns", drops=True),
        time_column("max", lambda row: row.per_call.max_ns, "max_ns", drops=True),
    )


def _of_one(row: Any, value: int) -> int | None:
    """The value, or None for several layers, of which it is not known."""
    return None if isinstance(row, _FoldedLayers) else value


_NOTE: Column[LayerTimes] = Column("note", lambda row: getattr(row, "note", ""), shrinks=True)
_LAYER: tuple[Column[LayerTimes], ...] = (
    Column("layer", lambda row: row.name, shrinks=True, keeps=16, cuts="middle"),
    _count("calls", lambda row: row.calls),
    time_column("GPU self", lambda row: row.gpu_self_ns, "gpu_self_ns"),
    time_column("GPU total", lambda row: row.gpu_total_ns, "gpu_total_ns"),
    time_column("CPU self", lambda row: row.cpu_self_ns, "cpu_self_ns"),
    time_column("CPU total", lambda row: row.cpu_total_ns, "cpu_total_ns"),
    *_per_call(),
    time_column("backward GPU", lambda row: row.backward_gpu_ns, "backward_gpu_ns", drops=True),
    time_column("backward CPU", lambda row: row.backward_cpu_ns, "backward_cpu_ns", drops=True),
    time_column("communication", lambda row: row.communication_ns or None, "communication_ns", drops=True),
    _count("kernels", lambda row: row.kernels, drops=True),
    _size("allocated", lambda row: row.allocated_bytes, "allocated_bytes"),
    _size("freed", lambda row: row.freed_bytes, "freed_bytes"),
    Column("shapes", lambda row: "; ".join(row.shapes), drops=True, cuts="end"),
)
_OP: tuple[Column[OpTimes], ...] = (
    Column("op", lambda row: row.name, shrinks=True, keeps=16),
    _count("calls", lambda row: row.calls),
    time_column("GPU", lambda row: row.gpu_ns, "gpu_ns"),
    _count("kernels", lambda row: row.kernels, drops=True),
    time_column("CPU self", lambda row: row.cpu_self_ns, "cpu_self_ns"),
    time_column("CPU total", lambda row: row.cpu_total_ns, "cpu_total_ns"),
    *_per_call(),
)
_KERNEL: tuple[Column[KernelTimes], ...] = (
    Column("kernel", lambda row: row.name, shrinks=True, keeps=24, cuts="middle"),
    Column("kind", lambda row: row.kind),
    _count("calls", lambda row: row.calls),
    time_column("GPU", lambda row: row.gpu_ns, "gpu_ns"),
    *_per_call(median_drops=False),
    time_column("launch latency", lambda row: row.latency.median_ns if row.latency else None, "latency_ns"),
    time_column("latency max", lambda row: row.latency.max_ns if row.latency else None, "latency_max_ns", drops=True),
    _size("moved", lambda row: row.bytes, "bytes"),
)
_STEP: tuple[Column[StepTimes], ...] = (
    Column("step", lambda row: row.name),
    time_column("start", lambda row: row.start_ns, "start_ns"),
    time_column("CPU", lambda row: row.cpu_ns, "cpu_ns"),
    time_column("GPU", lambda row: row.gpu_ns, "gpu_ns"),
    _count("kernels", lambda row: row.kernels),
)
SORTS = {
    "self": lambda row: row.cpu_self_ns,
    "total": lambda row: row.cpu_total_ns,
    "gpu": lambda row: getattr(row, "gpu_self_ns", None) or getattr(row, "gpu_ns", None) or 0,
    "backward": lambda row: (row.backward_gpu_ns or 0, row.backward_cpu_ns or 0),
    "memory": lambda row: row.allocated_bytes or 0,
    "calls": lambda row: row.calls,
    "median": lambda row: row.per_call.median_ns,
    "max": lambda row: row.per_call.max_ns,
    "latency": lambda row: row.latency.median_ns if row.latency else 0,
    "name": lambda row: row.name,
}
"""Sort keys of the rows: largest first, names alphabetically."""


def sorted_rows(rows: Sequence[Any], sort: str | None) -> list[Any]:
    """The rows sorted by `sort`; in their given order if `sort` is None or the rows have no such value."""
    if sort is None:
        return list(rows)
    try:
        return sorted(rows, key=SORTS[sort], reverse=sort != "name")
    except AttributeError:
        return list(rows)


def _drawn(table: Table, sort: str | None) -> Table:
    """The table without empty columns, for text; the column it is sorted by is never hidden."""
    rows = (*table.rows, *table.footer)
    filled = [column for column in table.columns if any(column.value(row) not in (None, "") for row in rows)]
    filled = [replace(column, drops=0) if column.title == sort else column for column in filled]
    return replace(table, columns=filled or table.columns[:1])


def _layer_order(trace: Trace, layers: Sequence[LayerTimes], options: TraceOptions) -> list[LayerTimes]:
    return sorted_rows(layers, options.sort or ("gpu" if trace.gpu_ns else "self"))


class _FoldedLayers(LayerTimes, frozen=True, kw_only=True):
    """The same layer of repeated blocks, summed; its median and 95th percentile are the largest of any layer."""

    count: int
    note: str


def _layer_table(trace: Trace, options: TraceOptions) -> Table:
    layers = trace.layers if options.full else fold_rows(trace.layers, lambda row: row.name, _layer_kind, _merged)
    rows = _layer_order(trace, layers, options)
    table = Table((*_LAYER, _NOTE), rows).first(options.top)
    omitted = rows[len(table.rows) :]
    total = {
        "layer": "TOTAL",
        "calls": sum(row.calls for row in trace.layers),
        "cpu_self_ns": trace.cpu_ns,
        "gpu_self_ns": trace.gpu_ns,
    }
    footer = [*([_other_layers(omitted)] if omitted else []), *_outside(trace), total]
    return _drawn(replace(table, footer=[{**row, "note": ""} for row in footer]), options.sort)


def _layer_kind(row: LayerTimes) -> Hashable:
    """Layers of one kind may share a row: the class, or the ops if the class is unknown."""
    return row.class_name or frozenset(row.ops)


def _merged(folded: FoldedName, rows: Sequence[LayerTimes]) -> LayerTimes:
    def sums(*names: str) -> dict[str, Any]:
        return {name: sum_of_known(getattr(row, name) for row in rows) for name in names}

    times = [row.cpu_self_ns if row.gpu_self_ns is None else row.gpu_self_ns for row in rows]
    odd = odd_one(times)
    return _FoldedLayers(
        name=folded.counted,
        per_call=Spread(
            min(row.per_call.min_ns for row in rows),
            max(row.per_call.median_ns for row in rows),
            max(row.per_call.p95_ns for row in rows),
            max(row.per_call.max_ns for row in rows),
        ),
        shapes=tuple(dict.fromkeys(shape for row in rows for shape in row.shapes)),
        class_name=rows[0].class_name,
        count=len(rows),
        note=odd_text(folded.text, rows[odd[0]].name, odd[1]) if odd else "",
        **sums("calls", "cpu_total_ns", "cpu_self_ns", "gpu_total_ns", "gpu_self_ns", "communication_ns", "kernels"),
        **sums("backward_cpu_ns", "backward_gpu_ns", "allocated_bytes", "freed_bytes"),
    )


def _other_layers(rows: Sequence[LayerTimes]) -> dict[str, Any]:
    """One row that sums the layers not shown; total times overlap, so only self times are added."""
    return {
        "layer": f"({plural(sum(getattr(row, 'count', 1) for row in rows), 'more layer')})",
        "calls": sum(row.calls for row in rows),
        "cpu_self_ns": sum(row.cpu_self_ns for row in rows),
        "gpu_self_ns": sum_of_known(row.gpu_self_ns for row in rows),
        "backward_cpu_ns": sum_of_known(row.backward_cpu_ns for row in rows),
        "backward_gpu_ns": sum_of_known(row.backward_gpu_ns for row in rows),
    }


def _outside(trace: Trace) -> list[dict[str, Any]]:
    """Rows for the time outside any layer, and for GPU time that could not be attributed."""
    outside = [
        {"layer": OUTSIDE + row.what, "cpu_self_ns": row.cpu_ns, "gpu_self_ns": row.gpu_ns, "kernels": row.kernels}
        for row in trace.outside
    ]
    return outside + [
        {"layer": UNATTRIBUTED + row.why, "gpu_self_ns": row.gpu_ns, "kernels": row.kernels}
        for row in trace.unattributed
    ]


def _plain(title: str, columns: Sequence[Column[Any]], rows: Callable[[Trace], Sequence[Any]]) -> TraceBreakdown:
    """A breakdown whose rows are shown as they are, with only a count of omitted rows below."""

    def data(trace: Trace, options: TraceOptions) -> Table:
        return Table(columns, sorted_rows(rows(trace), options.sort)).first(options.top)

    def text(trace: Trace, options: TraceOptions) -> Table:
        table = data(trace, options)
        omitted = len(rows(trace)) - len(table.rows)
        return _drawn(replace(table, footer=[{columns[0].key: f"({omitted} more)"}] if omitted else []), options.sort)

    return TraceBreakdown(title, text, data)


def _layer_data(trace: Trace, options: TraceOptions) -> Table:
    rows = _layer_order(trace, trace.layers, options)
    return Table(_LAYER, [*rows[: options.top], *_outside(trace)])


BREAKDOWNS = {
    "layer": TraceBreakdown("Layers", _layer_table, _layer_data),
    "op": _plain("Ops", _OP, lambda trace: trace.ops),
    "kernel": _plain("Kernels", _KERNEL, lambda trace: trace.kernels),
    "step": _plain("Steps", _STEP, lambda trace: trace.steps),
}
"""The breakdowns of one trace."""
