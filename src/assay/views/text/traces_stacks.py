"""Call stacks of a trace as a table: every path of nested spans with its time."""

from __future__ import annotations

from assay import units
from assay.traces.stacks import Stacks
from assay.views.json.traces import StackLine, StacksFile
from assay.views.text.report import Report
from assay.views.text.tables import Column, Table
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


def stack_lines(stacks: Stacks, sort: str | None) -> list[StackLine]:
    """The paths, those with the most time of their own first."""
    lines = [
        StackLine(
            stack=stacks.path(index),
            calls=stacks.calls[index],
            self_ns=stacks.own_ns[index],
            total_ns=stacks.total_ns[index],
            gpu_ns=stacks.gpu_ns[index] if stacks.gpu_ns is not None else None,
        )
        for index in range(len(stacks.frames))
    ]
    keys = {
        "total": lambda line: line.total_ns,
        "calls": lambda line: line.calls,
        "gpu": lambda line: line.gpu_ns or 0,
    }
    return sorted(lines, key=keys.get(sort or "", lambda line: line.self_ns), reverse=True)


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


def stacks_file(stacks: Stacks, path: str, shown: Shown) -> StacksFile:
    """All paths as their file holds them."""
    lines = stack_lines(stacks, shown.sort)
    return StacksFile(path, lines if shown.top is None else lines[: shown.top])
