"""The tables of a profile's modules: where the time goes, and every module with its times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from assay import units
from assay.analysis.name_ranges import FoldedName, fold_rows, odd_one, odd_text
from assay.analysis.parameters import sum_if_all_known
from assay.analysis.time_split import TimeRow, time_split
from assay.document import tree
from assay.document.document import Document
from assay.document.rows import Module
from assay.document.timing import ModuleTime, Timing
from assay.document.tree import modules_around
from assay.views.tables import Column, Row, Table, percent
from assay.views.text.amounts import part_of
from assay.views.text.report import Parts, first_rows, section


class _ModuleRow(NamedTuple):
    """A module that was called, and its time."""

    module: Module
    time: ModuleTime
    backward_s: float | None
    flops: int | None
    rated_s: float | None
    """The time that FLOP/s use: on the device if it was timed, CPU time if the machine was busy; None if unknown."""
    note: str | None = None

    @property
    def flops_per_s(self) -> float | None:
        return part_of(self.flops, self.rated_s)


def _note(of: Callable[[Row], str | None]) -> Column[Row]:
    """A column of notes, which `without_empty` removes if no row has one."""
    return Column("note", of, show=lambda note: note or "", shrinks=True, keeps=-8)


_MODULES: tuple[Column[_ModuleRow], ...] = (
    Column("module", lambda row: tree.path_text(row.module.path), shrinks=True, keeps=12, cuts="middle"),
    Column("class", lambda row: row.module.class_name, shrinks=True, drops=True),
    Column("calls", lambda row: row.time.calls, "right", units.exact),
    Column("total", lambda row: row.time.total_s, "right", units.seconds, name="total s"),
    Column("low", lambda row: row.time.low_s, "right", units.seconds, drops=True, name="total low s"),
    Column("high", lambda row: row.time.high_s, "right", units.seconds, drops=True, name="total high s"),
    Column("self", lambda row: row.time.self_s, "right", units.seconds, name="self s"),
    Column("device total", lambda row: row.time.device_total_s, "right", units.seconds, name="device total s"),
    Column("device self", lambda row: row.time.device_self_s, "right", units.seconds, name="device self s"),
    Column("gap", lambda row: row.time.gap_s, "right", units.seconds, drops=True, name="gap s"),
    Column("self share", lambda row: row.time.self_share, "right", percent, bar=True),
    Column("backward", lambda row: row.backward_s, "right", units.seconds, drops=True, name="backward s"),
    Column("FLOPs", lambda row: row.flops, "right", units.count, drops=True),
    Column("FLOP/s", lambda row: row.flops_per_s, "right", units.count, drops=True),
)
_WHERE: tuple[Column[TimeRow], ...] = (
    Column("module", lambda row: _where_name(row), shrinks=True, keeps=12, cuts="middle"),
    Column("class", lambda row: row.class_name, shrinks=True, cuts="end", drops=1),
    Column("share", lambda row: row.share, "right", percent, bar=True),
    Column("time", lambda row: row.seconds, "right", units.seconds),
    _note(lambda row: odd_text(row.name, *row.odd) if row.odd else None),
)
_RANGE = ("total low s", "total high s")


def where_parts(document: Document) -> Parts:
    """Where the time of the pass goes, in a few rows that add up to it; nothing if no module was timed."""
    split = time_split(document)
    if split is None:
        return []
    where = " (on the device)" if split.on_device else ""
    return section(f"Where the time goes{where}", Table(_WHERE, split.rows, split.rest, fixed=True).without_empty())


def _where_name(row: TimeRow) -> str:
    """`layers.0–31.mlp ×32`, or `layers.0–31 ×32 (own code)`."""
    return f"{row.name}{f' ×{row.count}' if row.count > 1 else ''}{' (own code)' if row.own else ''}"


def module_parts(document: Document, lines: int, *, full: bool = False) -> Parts:
    """The modules with the largest self times, repeated blocks folded unless `full`; nothing if none was timed."""
    if document.timing is None:
        return []
    where = " on the device" if _on_device(document.timing) else ""
    title, table = first_rows(f"Modules by self time{where}", shown_modules(document, full=full), lines)
    return [title, table.without_empty()]


def module_table(document: Document) -> Table:
    """One row per module that was called, largest self time first.

    If the device was timed, the order, the shares and FLOP/s use its time: the host only launches kernels.
    """
    timing = document.timing
    if timing is None:
        return Table(_MODULES, [])
    on_device = _on_device(timing)
    step = document.profile.step if document.profile is not None else None
    processor = _processor_times(document)
    rows = []
    for index, time in enumerate(timing.modules):
        if time is None:
            continue
        backward = step.modules[index] if step is not None and index < len(step.modules) else None
        flops = document.cost.modules[index].total.flops if document.cost is not None else None
        rated = time.device_total_s if on_device else time.total_s if processor is None else processor.get(index)
        rows.append(_ModuleRow(document.modules[index], time, backward, flops, rated))
    rows.sort(key=lambda row: -float(row.time.self_share or 0.0))
    own = [row.time.self_share for row in rows]
    outside = {
        "module": "outside any module",
        "class": "",
        "self s": timing.outside.value,
        "self share": None if on_device or None in own else max(1 - sum(share or 0.0 for share in own), 0.0),
        "backward s": step.outside_s if step is not None else None,
    }
    return Table(_MODULES, rows, [outside]).without_empty()


def shown_modules(document: Document, *, full: bool) -> Table:
    """The modules for people: unless `full`, one row for the same module of repeated blocks, the odd one named."""
    table = with_range(module_table(document))
    if full:
        return table
    rows = fold_rows(
        table.rows, lambda row: tree.path_text(row.module.path), lambda row: row.module.class_path, _merged_modules
    )
    rows.sort(key=lambda row: -float(row.time.self_share or 0.0))
    notes: Column[_ModuleRow] = _note(lambda row: row.note)
    return replace(table, columns=[*table.columns, notes], rows=rows)


def _merged_modules(folded: FoldedName, rows: Sequence[_ModuleRow]) -> _ModuleRow:
    """The sums over `rows`; the range of a sum is unknown."""
    module = msgspec.structs.replace(rows[0].module, path=folded.counted)

    def total(name: str) -> Any:
        return sum_if_all_known(getattr(row.time, name) for row in rows)

    time = ModuleTime(
        **{name: total(name) for name in ModuleTime.__struct_fields__ if name not in ("low_s", "high_s")}
    )
    backward, flops, rated = (sum_if_all_known(values) for values in zip(*(row[2:5] for row in rows), strict=True))
    odd = odd_one([row.time.self_s if row.time.device_self_s is None else row.time.device_self_s for row in rows])
    note = odd_text(folded.text, rows[odd[0]].module.path, odd[1]) if odd else None
    return _ModuleRow(module, time, backward, flops, rated, note)


def _processor_times(document: Document) -> dict[int, float] | None:
    """CPU seconds in the ops of each module and its submodules; None if rates use the time itself.

    Empty if rates are unknown.
    """
    profile = document.profile
    if profile is None or profile.conditions is None or profile.conditions.rates == "time":
        return None
    seconds: dict[int, float] = {}
    if not profile.conditions.rates:
        return seconds
    for op in document.ops:
        time = profile.kinds[op.kind]
        if time is None or time.processor_s is None:
            continue
        for module in set(modules_around(op.call, document.calls)):
            seconds[module] = seconds.get(module, 0.0) + time.processor_s / time.count
    return seconds


def _on_device(timing: Timing) -> bool:
    return any(time is not None and time.device_self_s is not None for time in timing.modules)


def with_range(table: Table) -> Table:
    """The table for people: one column with the range of the total instead of two with its ends."""
    ends = {column.key: column for column in table.columns if column.key in _RANGE}
    if len(ends) < len(_RANGE):
        return table
    low, high = (ends[key] for key in _RANGE)

    def text(row: Any) -> str:
        known = low.value(row) is not None and high.value(row) is not None
        return f"{low.text(row)} to {high.text(row)}" if known else units.UNKNOWN

    column = Column[Any]("range", text, "right", drops=True, order=low.value)
    kept = [column if each is low else each for each in table.columns if each is not high]
    footer = [{**row, "range": units.UNKNOWN} for row in table.footer]
    return replace(table, columns=kept, footer=footer)
