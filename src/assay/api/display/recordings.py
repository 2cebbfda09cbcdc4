"""Previews of forward statistics: the calls of one module, and those of a whole recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from assay import units
from assay.api.display.preview import Preview, preview
from assay.document.findings import Finding
from assay.document.provenance import Figure, Measured
from assay.document.tree import path_text
from assay.findings.brief import Brief, BriefFigure
from assay.forward_stats import CallList, ForwardRecorder, ForwardStats
from assay.messages import plural
from assay.views.tables import Column, Table, percent
from assay.views.text.amounts import part_of

_CLOCK = "host clock, without the time spent recording"
_NAN, _INF = "A101", "A102"
"""The rules that explain the values."""


class _ModuleRow(NamedTuple):
    path: str
    calls: Sequence[ForwardStats]
    self_s: float
    share: float | None


def _shape(shape: tuple[int, ...] | None) -> str | None:
    return None if shape is None else units.shape(shape)


def _number(value: complex | None) -> str:
    return f"{value:.3g}" if isinstance(value, complex) else units.ratio(value)


_VALUES: tuple[Column[ForwardStats], ...] = (
    Column("output", lambda call: _shape(call.out_shape)),
    Column("min", lambda call: call.out_min, "right", _number),
    Column("max", lambda call: call.out_max, "right", _number),
    Column("mean", lambda call: call.out_mean, "right", _number),
    Column("std", lambda call: call.out_std, "right", _number),
    Column("note", lambda call: _note(call), show=lambda note: note or ""),
)
_CALLS: tuple[Column[ForwardStats], ...] = (
    Column("input", lambda call: _shape(call.in_shape)),
    Column("time", lambda call: call.time_s, "right", units.seconds),
    *_VALUES,
)


def _of_last(of: Callable[[ForwardStats], Any]) -> Callable[[Any], Any]:
    return lambda row: of(row.calls[-1])


_MODULES: tuple[Column[Any], ...] = (
    Column("module", lambda row: path_text(row.path)),
    Column("calls", lambda row: len(row.calls), "right", units.exact),
    Column("share", lambda row: row.share, "right", percent, bar=True),
    Column("self time", lambda row: row.self_s, "right", units.seconds),
    *(replace(column, of=_of_last(column.of)) for column in _VALUES),
)


def of_calls(calls: CallList) -> Preview:
    """The time of the calls of one module, and the values of its outputs."""
    if not calls:
        return preview(Brief(("no calls recorded",)))
    made = list(calls)
    types = f"{_shape(made[-1].in_shape) or units.UNKNOWN} → {_shape(made[-1].out_shape) or units.UNKNOWN}"
    brief = Brief(
        (f"{plural(len(made), 'call')} of {path_text(made[-1].module_path)}", types),
        [_time(made, "per call")],
        problems=_problems(
            next((call for call in made if call.nan), None), next((call for call in made if call.inf), None)
        ),
        clean=_examined(made),
    )
    return preview(brief, parts=lambda: ["Calls, newest first", Table(_CALLS, made[::-1])])


def of_recorder(recorder: ForwardRecorder) -> Preview:
    """The time of a pass, the modules that take most of it, and the first values that are not finite."""
    calls = recorder.calls
    if not calls:
        return preview(Brief(("no calls recorded",)))
    rows = _modules(calls)
    passes = [call for call in calls if call.outermost]
    identity = (
        plural(len(rows), "module"),
        plural(len(calls), "call"),
        plural(len({call.pass_index for call in calls}), "pass", "passes"),
    )
    brief = Brief(
        identity,
        [_time(passes, "per outermost call")] if passes else [],
        problems=_problems(recorder.first_nan, recorder.first_inf),
        clean=_examined(calls),
    )
    return preview(brief, parts=lambda: ["Modules by self time", Table(_MODULES, rows)])


def _modules(calls: Sequence[ForwardStats]) -> list[_ModuleRow]:
    """One row per module, largest self time first."""
    groups: dict[str, list[ForwardStats]] = {}
    for call in calls:
        groups.setdefault(call.module_path, []).append(call)
    whole = sum(call.self_time_s for call in calls)
    sums = {path: sum(call.self_time_s for call in group) for path, group in groups.items()}
    rows = [_ModuleRow(path, group, sums[path], part_of(sums[path], whole)) for path, group in groups.items()]
    return sorted(rows, key=lambda row: -row.self_s)


def _time(calls: Sequence[ForwardStats], text: str) -> BriefFigure:
    """The median, with the range over all calls."""
    times = [call.time_s for call in calls]
    ends = (min(times), max(times)) if len(times) > 1 else None
    return BriefFigure("Time", Figure(median(times), Measured(_CLOCK, len(times), range=ends)), "seconds", text)


def _problems(first_nan: ForwardStats | None, first_inf: ForwardStats | None) -> list[Finding]:
    found = ((_NAN, "NaN", first_nan), (_INF, "infinity", first_inf))
    return [
        Finding(code, "error", f"{what} first appears in {path_text(call.module_path)}", "")
        for code, what, call in found
        if call is not None
    ]


def _examined(calls: Sequence[ForwardStats]) -> str:
    """`outputs` if the values of all outputs are known."""
    return "outputs" if all(call.nan is not None and call.inf is not None for call in calls) else ""


def _note(call: ForwardStats) -> str | None:
    notes = [name for name, found in (("NaN", call.nan), ("infinity", call.inf)) if found]
    return ", ".join([*notes, *([f"raised {call.error}"] if call.error else [])]) or None
