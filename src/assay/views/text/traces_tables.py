"""The tables of one trace: by layer, operation, kernel or step, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assay import units
from assay.document.trace import LayerTimes, Trace
from assay.views.tables import Column, Table

OUTSIDE = "outside any module: "
UNATTRIBUTED = "no layer known: "


@dataclass(frozen=True)
class Shown:
    """What of a trace is shown, and how."""

    by: str = "layer"
    sort: str | None = None
    top: int | None = None


def duration(value: int | None) -> str:
    """Nanoseconds with a fitting unit."""
    return units.seconds(None if value is None else value / 1e9)


@dataclass(frozen=True)
class Division:
    """One way to divide a trace: its title and the two forms of its table."""

    title: str
    table: Callable[[Trace, Shown], Table]
    data: Callable[[Trace, Shown], Table]


def _time(title: str, drops: bool = False) -> Column:
    return Column(title, "right", duration, drops=drops)


def _count(title: str, drops: bool = False) -> Column:
    return Column(title, "right", units.exact, drops=drops)


def _size(title: str) -> Column:
    return Column(title, "right", units.size, drops=True)


_Field = tuple[str, Column, Callable[[Any], Any]]
"""The name programs see, the column people see, and where the value is."""

_LAYER: tuple[_Field, ...] = (
    ("layer", Column("layer", shrinks=True, keeps=16), lambda row: row.name),
    ("calls", _count("calls"), lambda row: row.calls),
    ("gpu_self_ns", _time("GPU self"), lambda row: row.gpu_self_ns),
    ("gpu_total_ns", _time("GPU total"), lambda row: row.gpu_total_ns),
    ("cpu_self_ns", _time("CPU self"), lambda row: row.cpu_self_ns),
    ("cpu_total_ns", _time("CPU total"), lambda row: row.cpu_total_ns),
    ("min_ns", _time("least", drops=True), lambda row: row.per_call.min_ns),
    ("median_ns", _time("median", drops=True), lambda row: row.per_call.median_ns),
    ("p95_ns", _time("p95", drops=True), lambda row: row.per_call.p95_ns),
    ("max_ns", _time("most", drops=True), lambda row: row.per_call.max_ns),
    ("backward_gpu_ns", _time("backward GPU", drops=True), lambda row: row.backward_gpu_ns),
    ("backward_cpu_ns", _time("backward CPU", drops=True), lambda row: row.backward_cpu_ns),
    ("communication_ns", _time("communication", drops=True), lambda row: row.communication_ns or None),
    ("kernels", _count("kernels", drops=True), lambda row: row.kernels),
    ("allocated_bytes", _size("allocated"), lambda row: row.allocated_bytes),
    ("freed_bytes", _size("freed"), lambda row: row.freed_bytes),
    ("shapes", Column("shapes", drops=True, cuts=True), lambda row: "; ".join(row.shapes)),
)
_OP: tuple[_Field, ...] = (
    ("op", Column("operation", shrinks=True, keeps=16), lambda row: row.name),
    ("calls", _count("calls"), lambda row: row.calls),
    ("gpu_ns", _time("GPU"), lambda row: row.gpu_ns),
    ("kernels", _count("kernels", drops=True), lambda row: row.kernels),
    ("cpu_self_ns", _time("CPU self"), lambda row: row.cpu_self_ns),
    ("cpu_total_ns", _time("CPU total"), lambda row: row.cpu_total_ns),
    ("min_ns", _time("least", drops=True), lambda row: row.per_call.min_ns),
    ("median_ns", _time("median", drops=True), lambda row: row.per_call.median_ns),
    ("p95_ns", _time("p95", drops=True), lambda row: row.per_call.p95_ns),
    ("max_ns", _time("most", drops=True), lambda row: row.per_call.max_ns),
)
_KERNEL: tuple[_Field, ...] = (
    ("kernel", Column("kernel", shrinks=True, keeps=24, cuts=True), lambda row: row.name),
    ("kind", Column("kind"), lambda row: row.kind),
    ("calls", _count("calls"), lambda row: row.calls),
    ("gpu_ns", _time("GPU"), lambda row: row.gpu_ns),
    ("min_ns", _time("least", drops=True), lambda row: row.per_call.min_ns),
    ("median_ns", _time("median"), lambda row: row.per_call.median_ns),
    ("p95_ns", _time("p95", drops=True), lambda row: row.per_call.p95_ns),
    ("max_ns", _time("most", drops=True), lambda row: row.per_call.max_ns),
    ("latency_ns", _time("launch to start"), lambda row: row.latency and row.latency.median_ns),
    ("latency_max_ns", _time("at most", drops=True), lambda row: row.latency and row.latency.max_ns),
    ("bytes", _size("moved"), lambda row: row.bytes),
)
_STEP: tuple[_Field, ...] = (
    ("step", Column("step"), lambda row: row.name),
    ("start_ns", _time("begins at"), lambda row: row.start_ns),
    ("cpu_ns", _time("CPU"), lambda row: row.cpu_ns),
    ("gpu_ns", _time("GPU"), lambda row: row.gpu_ns),
    ("kernels", _count("kernels"), lambda row: row.kernels),
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
"""What lines can be sorted by, the largest first except for names."""


def sorted_rows(rows: Sequence[Any], sort: str | None) -> list[Any]:
    """The rows by `sort`; as they came where they have no such figure."""
    if sort is None:
        return list(rows)
    try:
        return sorted(rows, key=SORTS[sort], reverse=sort != "name")
    except AttributeError:
        return list(rows)


def _drawn(fields: Sequence[_Field], rows: Sequence[Any], extra: Sequence[Sequence[Any]] = ()) -> Table:
    """The table for people: columns in which nothing is known are left out."""
    lines = [[value(row) for _, _, value in fields] for row in rows]
    known = [i for i in range(len(fields)) if any(line[i] not in (None, "") for line in (*lines, *extra))]
    known = known or [0]
    return Table(
        [fields[i][1] for i in known],
        [[line[i] for i in known] for line in lines],
        [[line[i] for i in known] for line in extra],
    )


def _named(fields: Sequence[_Field], rows: Sequence[Any], extra: Sequence[Sequence[Any]] = ()) -> Table:
    """The table for programs: every column under its plain name."""
    lines = [[value(row) for _, _, value in fields] for row in rows]
    return Table([Column(name) for name, _, _ in fields], [*lines, *map(list, extra)])


def _line(fields: Sequence[_Field], **values: Any) -> list[Any]:
    return [values.get(name) for name, _, _ in fields]


def _layer_order(trace: Trace, shown: Shown) -> list[LayerTimes]:
    return sorted_rows(trace.layers, shown.sort or ("gpu" if trace.gpu_ns else "self"))


def _layer_table(trace: Trace, shown: Shown) -> Table:
    rows = _layer_order(trace, shown)
    kept, others = (rows, []) if shown.top is None else (rows[: shown.top], rows[shown.top :])
    extra = [_other_layers(others)] if others else []
    total = _line(
        _LAYER,
        layer="TOTAL",
        calls=sum(row.calls for row in trace.layers),
        cpu_self_ns=trace.cpu_ns,
        gpu_self_ns=trace.gpu_ns,
    )
    return _drawn(_LAYER, kept, [*extra, *_outside(trace), total])


def _other_layers(rows: Sequence[LayerTimes]) -> list[Any]:
    """One line for the layers that are not shown; totals hold one another, so only own times are added."""
    return _line(
        _LAYER,
        layer=f"{len(rows)} other layers",
        calls=sum(row.calls for row in rows),
        cpu_self_ns=sum(row.cpu_self_ns for row in rows),
        gpu_self_ns=_added(row.gpu_self_ns for row in rows),
        backward_cpu_ns=_added(row.backward_cpu_ns for row in rows),
        backward_gpu_ns=_added(row.backward_gpu_ns for row in rows),
    )


def _added(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _outside(trace: Trace) -> list[list[Any]]:
    """A line for everything that is no layer's own time."""
    lines = [
        _line(_LAYER, layer=OUTSIDE + row.what, cpu_self_ns=row.cpu_ns, gpu_self_ns=row.gpu_ns, kernels=row.kernels)
        for row in trace.outside
    ]
    return lines + [
        _line(_LAYER, layer=UNATTRIBUTED + row.why, gpu_self_ns=row.gpu_ns, kernels=row.kernels)
        for row in trace.unattributed
    ]


def _plain(fields: Sequence[_Field], rows: Callable[[Trace], Sequence[Any]]) -> tuple[Any, Any]:
    """The two tables of rows that need nothing beside them."""

    def people(trace: Trace, shown: Shown) -> Table:
        found = sorted_rows(rows(trace), shown.sort)
        kept = found if shown.top is None else found[: shown.top]
        left = len(found) - len(kept)
        return _drawn(fields, kept, [_line(fields, **{fields[0][0]: f"{left} others"})] if left else [])

    def programs(trace: Trace, shown: Shown) -> Table:
        found = sorted_rows(rows(trace), shown.sort)
        return _named(fields, found if shown.top is None else found[: shown.top])

    return people, programs


def _layer_data(trace: Trace, shown: Shown) -> Table:
    rows = _layer_order(trace, shown)
    return _named(_LAYER, rows if shown.top is None else rows[: shown.top], _outside(trace))


DIVISIONS = {
    "layer": Division("Layers", _layer_table, _layer_data),
    "op": Division("Operations", *_plain(_OP, lambda trace: trace.ops)),
    "kernel": Division("Kernels", *_plain(_KERNEL, lambda trace: trace.kernels)),
    "step": Division("Steps", *_plain(_STEP, lambda trace: trace.steps)),
}
"""How one trace can be divided."""
