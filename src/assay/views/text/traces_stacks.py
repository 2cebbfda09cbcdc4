"""Call stacks of a trace as a table: every path of nested spans with its time."""

from __future__ import annotations

from assay import units
from assay.trace.read.stacks import Stacks, stack_lines
from assay.views.tables import Column, Table
from assay.views.text.report import Report
from assay.views.text.traces_tables import Shown, duration

_JOIN = " › "
_SHOWN = (
    Column("self", "right", duration),
    Column("total", "right", duration),
    Column("GPU", "right", duration),
    Column("calls", "right", units.exact),
    Column("stack", shrinks=True),
)
_DATA = ("self_ns", "total_ns", "gpu_ns", "calls", "stack")


def stacks_report(stacks: Stacks, path: str, shown: Shown) -> Report:
    """The paths with the most time."""
    lines = stack_lines(stacks, shown.sort)
    kept = lines if shown.top is None else lines[: shown.top]
    rows = [[line.self_ns, line.total_ns, line.gpu_ns, line.calls, _JOIN.join(line.stack)] for line in kept]
    left = len(lines) - len(kept)
    footer = [[sum(line.self_ns for line in lines[len(kept) :]), None, None, None, f"{left} others"]] if left else []
    columns = [column for column in _SHOWN if column.title != "GPU" or stacks.gpu_ns is not None]
    places = [_SHOWN.index(column) for column in columns]
    table = Table(columns, [[row[i] for i in places] for row in rows], [[row[i] for i in places] for row in footer])
    return Report([f"{path}: {len(lines)} stacks", table], Table([Column(name) for name in _DATA], rows))
