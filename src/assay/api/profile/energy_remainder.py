"""The difference between the energy of a pass and that of its replayed ops, in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay import units
from assay.document.document import Document
from assay.document.machine import Replay, measured_figure, unknown_figure
from assay.document.profile import EnergyPart, KindEnergy, KindTime
from assay.document.provenance import Figure, Modelled
from assay.messages import plural

GAPS = "gaps between ops"
REPLAY_GAPS = "gaps in the replays"
NOT_REPLAYED = "ops not replayed"
SLOWER = "ops slower in the pass"
UNEXPLAINED = "unexplained"


class _Replayed(NamedTuple):
    """A replayed kind: joules and seconds per execution while replayed, and its time in the pass."""

    joules: float
    seconds: float
    timed: KindTime

    @property
    def each_s(self) -> float:
        """Seconds per execution in the pass."""
        return (self.timed.total_s or 0.0) / self.timed.count

    @property
    def waiting_s(self) -> float:
        """Seconds of all executions that the replay took longer than the pass: the device waited for launches."""
        return self.timed.count * max(self.seconds - self.each_s, 0.0)

    @property
    def slower_s(self) -> float:
        """Seconds of all executions that the pass took longer than the replay, whose inputs stay in caches."""
        return self.timed.count * max(self.each_s - self.seconds, 0.0)

    @property
    def busy_s(self) -> float:
        """Seconds of all executions that the device worked while replayed."""
        return self.timed.count * min(self.seconds, self.each_s)


def closure(document: Document, kinds: Sequence[KindEnergy | None], whole: Figure) -> tuple[Figure, float | None]:
    """The summed energy of the kinds divided by that of the pass, and the share of op time these kinds cover."""
    assert document.profile is not None
    total = sum(timed.total_s or 0.0 for timed in document.profile.kinds if timed is not None)
    replayed = _replayed(document, kinds)
    if not replayed or not whole.value or not total:
        return unknown_figure("the energy of ops was not measured"), None
    share = sum(one.timed.total_s or 0.0 for one in replayed) / total
    by = f"replayed ops ({units.share(share, 1)} of op time) divided by the replayed pass"
    return measured_figure(_joules(replayed) / whole.value, by), share


def remainder(
    document: Document, kinds: Sequence[KindEnergy | None], whole: Replay, idle_w: Figure
) -> list[EnergyPart]:
    """The energy of the pass less that of the replayed ops, in parts that add up to it; empty if either is unknown.

    Between ops, an accelerator waits at its idle power. A CPU runs Python, at about the power of the pass.
    """
    profile = document.profile
    assert profile is not None
    replayed = _replayed(document, kinds)
    if not replayed or whole.energy_j.value is None or whole.time_s.value is None:
        return []
    timed = [each for each in profile.kinds if each is not None]
    gap_w, power = (whole.power_w, "power of the pass") if profile.device == "cpu" else (idle_w, "idle power")
    gap_s = max(whole.time_s.value - sum(each.total_s or 0.0 for each in timed), 0.0)
    waiting_s = sum(one.waiting_s for one in replayed)
    parts = [
        _not_replayed(replayed, timed, gap_w.value or 0.0),
        EnergyPart(GAPS, _at_power(gap_w, gap_s, power)),
        EnergyPart(REPLAY_GAPS, _at_power(gap_w, -waiting_s, power)),
        EnergyPart(SLOWER, _slower(replayed)),
    ]
    explained = sum(part.energy.value or 0.0 for part in parts)
    rest = whole.energy_j.value - _joules(replayed) - explained
    by = "the pass less its ops and the parts above: caches, clocks, values of data"
    return [*parts, EnergyPart(UNEXPLAINED, Figure(rest, Modelled(by)))]


def _replayed(document: Document, kinds: Sequence[KindEnergy | None]) -> list[_Replayed]:
    assert document.profile is not None
    pairs = zip(kinds, document.profile.kinds, strict=False)
    return [
        _Replayed(row.each.value, row.replayed_s.value, timed)
        for row, timed in pairs
        if row is not None
        and timed is not None
        and timed.total_s is not None
        and row.each.value is not None
        and row.replayed_s.value
    ]


def _joules(replayed: Sequence[_Replayed]) -> float:
    return sum(one.joules * one.timed.count for one in replayed)


def _not_replayed(replayed: Sequence[_Replayed], timed: Sequence[KindTime], gap_w: float) -> EnergyPart:
    """The ops that were not replayed, at the mean power of those that were."""
    working = _joules(replayed) - gap_w * sum(one.waiting_s for one in replayed)
    busy_s = sum(one.busy_s for one in replayed)
    seconds = sum(each.total_s or 0.0 for each in timed) - sum(one.timed.total_s or 0.0 for one in replayed)
    if not busy_s:
        return EnergyPart(NOT_REPLAYED, unknown_figure("the time of the replayed ops is unknown"))
    watts = max(working, 0.0) / busy_s
    count = plural(len(timed) - len(replayed), "kind")
    by = f"power of the replayed ops ({units.watts(watts)}) × time of {count} ({units.seconds(seconds)})"
    return EnergyPart(NOT_REPLAYED, Figure(watts * max(seconds, 0.0), Modelled(by)))


def _slower(replayed: Sequence[_Replayed]) -> Figure:
    joules = sum(one.joules / one.seconds * one.slower_s for one in replayed)
    seconds = sum(one.slower_s for one in replayed)
    return Figure(joules, Modelled(f"power of each op × time beyond its replay ({units.seconds(seconds)})"))


def _at_power(watts: Figure, seconds: float, power: str) -> Figure:
    """The energy of `seconds` at a power; negative for negative seconds."""
    if watts.value is None:
        return unknown_figure(f"the {power} is unknown")
    return Figure(
        watts.value * seconds, Modelled(f"{power} ({units.watts(watts.value)}) × {units.seconds(abs(seconds))}")
    )
