"""Converts recorded calls to the timing of a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.document.provenance import Figure, Measured, Provenance, Unknown
from assay.document.rows import Module
from assay.document.timing import ModuleTime, Timing
from assay.forward_stats.call_list import calls_of
from assay.forward_stats.results import ForwardStats
from assay.machine.samples import spread
from assay.sources.holders import module_at, named_modules

BY = "perf_counter, without the time spent recording"


class _Pass(NamedTuple):
    """The calls of one pass, by module row."""

    calls: dict[int, list[ForwardStats]]

    @property
    def all_calls(self) -> Iterable[ForwardStats]:
        """The calls of all modules."""
        return (call for calls in self.calls.values() for call in calls)

    @property
    def outermost(self) -> list[ForwardStats]:
        """The calls that no other call encloses."""
        return [call for call in self.all_calls if call.outermost]

    @property
    def whole_ns(self) -> int:
        """The time of the whole pass."""
        return sum(call.time_ns for call in self.outermost)

    @property
    def complete(self) -> bool:
        """Whether no call was dropped or failed."""
        outermost = self.outermost
        inside = sum(1 + call.calls_inside for call in outermost)
        return inside == sum(1 for _ in self.all_calls) and not any(call.error for call in outermost)


def timing_of(model: object, modules: Sequence[Module]) -> Timing | None:
    """The times of `modules`, the module rows of a document of `model`; None if no call was recorded.

    All times are from the same pass, the one with the median duration, so that they add up to it.
    """
    passes = _passes(model, modules)
    candidates = [each for each in passes if each.complete] or [each for each in passes if each.outermost] or passes
    if not candidates:
        return None
    candidates.sort(key=lambda each: each.whole_ns)
    chosen = candidates[(len(candidates) - 1) // 2]
    times = [_time(row, chosen, candidates) for row in range(len(modules))]
    inside_ns = sum(call.self_time_ns for row, calls in chosen.calls.items() if row >= 0 for call in calls)
    measured = Measured(BY, len(candidates), _spread_s([each.whole_ns for each in candidates]))
    columns: dict[str, Provenance] = {
        f"modules.{name}": measured for name in ModuleTime.__struct_fields__ if name != "calls"
    }
    whole = chosen.whole_ns
    if not chosen.outermost:
        return Timing(times, columns=columns)
    outside = Figure((whole - inside_ns) * 1e-9, measured)
    if not chosen.complete:
        outside = Figure(None, Unknown("calls were dropped or failed"))
    return Timing(times, Figure(whole * 1e-9, measured), outside, columns=columns)


def _passes(model: object, modules: Sequence[Module]) -> list[_Pass]:
    """All recorded passes; calls of modules without a row are under -1."""
    live = list(named_modules(model))
    by_path = dict(live)
    rows: dict[int, int] = {}
    for index, row in enumerate(modules):
        module = by_path.get(row.path) or module_at(model, row.path)
        if module is not None:
            rows[id(module)] = index
    passes: dict[int, _Pass] = {}
    for _, module in live:
        for call in calls_of(module):
            passes.setdefault(call.pass_index, _Pass({})).calls.setdefault(rows.get(id(module), -1), []).append(call)
    return list(passes.values())


def _time(row: int, chosen: _Pass, passes: list[_Pass]) -> ModuleTime | None:
    calls = chosen.calls.get(row)
    if not calls:
        return None
    totals = [_total_ns(each.calls.get(row, [])) for each in passes]
    return ModuleTime(
        calls=len(calls),
        total_s=_total_ns(calls) * 1e-9,
        self_s=sum(call.self_time_ns for call in calls) * 1e-9,
        low_s=min(totals) * 1e-9 if len(passes) > 1 else None,
        high_s=max(totals) * 1e-9 if len(passes) > 1 else None,
        device_total_s=_sum(call.device_time_s for call in calls if not call.recursive),
        device_self_s=_sum(call.device_self_time_s for call in calls),
    )


def _total_ns(calls: list[ForwardStats]) -> int:
    """The total time of the calls; a call inside another call of the same module counts once."""
    return sum(call.time_ns for call in calls if not call.recursive)


def _sum(times: Iterable[float | None]) -> float | None:
    values = list(times)
    return sum(time for time in values if time is not None) if None not in values else None


def _spread_s(times_ns: list[int]) -> float | None:
    half = spread(times_ns)
    return None if half is None else half * 1e-9
