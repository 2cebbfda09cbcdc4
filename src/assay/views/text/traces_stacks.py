"""Call stacks of a trace as a table: every path of nested spans with its time."""

from __future__ import annotations

from assay import units
from assay.trace.read.stacks import StackLine, Stacks, stack_lines
from assay.views.tables import Column, Table
from assay.views.text.report import Report
from assay.views.text.traces_tables import TraceOptions, time_column

_JOIN = " › "
_GPU: Column[StackLine] = time_column("GPU", lambda line: line.gpu_ns, "gpu_ns")
_COLUMNS: tuple[Column[StackLine], ...] = (
    time_column("self", lambda line: line.self_ns, "self_ns"),
    time_column("total", lambda line: line.total_ns, "total_ns"),
    _GPU,
    Column("calls", lambda line: line.calls, "right", units.exact),
    Column("stack", lambda line: _JOIN.join(line.stack), shrinks=True),
)


def stacks_report(stacks: Stacks, path: str, options: TraceOptions) -> Report:
    """The paths with the most time."""
    lines = stack_lines(stacks, options.sort)
    data = Table(_COLUMNS, lines).first(options.top)
    others = lines[len(data.rows) :]
    rest = {"self_ns": sum(line.self_ns for line in others), "stack": f"{len(others)} others"}
    columns = [column for column in _COLUMNS if column is not _GPU or stacks.gpu_ns is not None]
    return Report([f"{path}: {len(lines)} stacks", Table(columns, data.rows, [rest] if others else [])], data)
