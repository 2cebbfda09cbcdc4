"""The energy of the kinds of op, measured by replaying each with a sensor, within a time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from assay.api.options import OnStep
from assay.api.profile.options import EnergyOptions
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.document.profile import KindEnergy, KindTime
from assay.machine.energy import CounterGroup, replay, replay_s

SMALLEST = 0.01
"""Kinds of op that take at least this share of the op time are replayed."""
KEPT = 12
"""Kinds whose inputs are copied and replayed together; copies of all inputs may not fit into memory."""


class TimeLimit:
    """The seconds that are left of a limit; infinitely many if there is none."""

    def __init__(self, seconds: float | None) -> None:
        self._end = math.inf if seconds is None else time.perf_counter() + seconds

    def left_s(self) -> float:
        """Seconds until the limit; negative after it."""
        return self._end - time.perf_counter()


class Schedule(NamedTuple):
    """How long and how often to replay, and how many kinds of op."""

    window_s: float
    repeats: int
    kinds: int
    each_s: float
    """Approximate seconds per kind."""


def schedule(kinds: int, left_s: float, period_s: float, options: EnergyOptions) -> Schedule:
    """Replays that take at most `left_s`: repeated less often first, then in shorter windows, then of fewer kinds."""
    choices = ((options.window_s, options.repeats), (options.window_s, 1), (0.0, 1))
    plans = [Schedule(window, repeats, kinds, replay_s(window, repeats, period_s)) for window, repeats in choices]
    shortest = plans[-1]
    fewer = shortest._replace(kinds=int(max(left_s, 0.0) // shortest.each_s) if left_s < math.inf else kinds)
    return next((plan for plan in plans if plan.each_s * kinds <= left_s), fewer)


def kinds_to_replay(times: Sequence[KindTime | None]) -> list[int]:
    """The indices of the kinds that take at least `SMALLEST` of the op time, slowest first."""
    timed = [(each.share or 0.0, index) for index, each in enumerate(times) if each is not None]
    return [index for share, index in sorted(timed, reverse=True) if share >= SMALLEST]


def replayed_kinds(
    profiled: ProfiledModel,
    document: Document,
    wait: Callable[[], None],
    sensors: CounterGroup,
    options: EnergyOptions,
    limit: TimeLimit,
    on_step: OnStep,
) -> list[KindEnergy | None]:
    """The measured energy of the slowest kinds, each replayed on its recorded inputs; None for the rest."""
    import torch

    assert document.profile is not None
    times = document.profile.kinds
    rows: list[KindEnergy | None] = [None] * len(times)
    slowest = kinds_to_replay(times)
    plan = schedule(len(slowest), limit.left_s(), sensors.period_s, options)
    with torch.no_grad():
        for index, run in _replays(profiled, document, slowest[: plan.kinds]):
            if limit.left_s() < plan.each_s:
                break
            on_step(f"energy of {document.kinds[index].name}")
            result = replay(run, sensors, synchronize=wait, window_s=plan.window_s, repeats=plan.repeats)
            timed = times[index]
            rows[index] = KindEnergy(
                each=result.energy_j,
                above_idle=result.above_idle_j,
                count=timed.count if timed is not None else 0,
                replayed_s=result.time_s,
                throttles=result.thermal.throttles,
            )
    return rows


def _replays(
    profiled: ProfiledModel, document: Document, kinds: Sequence[int]
) -> Iterator[tuple[int, Callable[[], object]]]:
    """Each of `kinds` with a function that runs one op of that kind again, on its recorded inputs."""
    from assay.recorder import inventory
    from assay.recorder.watch import record_pass
    from assay.timing.op_clock import BODIES, OpKeeper

    counted = [op for op in document.ops if document.kinds[op.kind].target not in BODIES]
    first: dict[int, int] = {}
    for number, op in enumerate(counted):
        first.setdefault(op.kind, number)
    model, inputs = profiled.opened.module, profiled.inputs
    for begin in range(0, len(kinds), KEPT):
        numbers = {kind: first[kind] for kind in kinds[begin : begin + KEPT] if kind in first}
        keeper = OpKeeper(numbers.values())
        record_pass(model, inventory.members(model), inputs.args, inputs.kwargs, profiled.setting(), keeper.call)
        for kind, number in numbers.items():
            if number in keeper.kept:
                yield kind, keeper.kept.pop(number)
