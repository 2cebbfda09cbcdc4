"""How undisturbed timed passes were: waiting for a processor, drifting speed, and what follows for their times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.api.profile import figures
from assay.document.machine import measured_figure, unknown_figure
from assay.document.profile import Conditions
from assay.document.provenance import Figure
from assay.machine import load
from assay.timing import bench
from assay.timing.bench import PassClock, single_threaded, undisturbed, waiting_share
from assay.timing.rounds import Rounds
from assay.timing.segments import QUARTERS, low_quartile_of

MACHINE_BUSY = "machine busy: no pass was undisturbed"
_AWAKE = 0.95
"""CPU time stands for the time of a pass if it is at least this share of the time not spent waiting for a processor:
otherwise the pass also waits for something else, such as a disk."""
_WAIT = "time that threads of this process waited for a processor (schedstat)"
_YARDSTICK = "the same piece of work beside every pass"


def judge(rounds: Rounds, others: float | None) -> Conditions:
    """The conditions of the rounds; `others` is the share of the processor that other processes used."""
    waiting = waiting_share(rounds.bare)
    busy = _busy(waiting, others)
    return Conditions(
        busy=busy,
        waiting=unknown_figure("this system does not count how long threads wait for a processor")
        if waiting is None
        else measured_figure(waiting, _WAIT, repeats=len(rounds.bare)),
        undisturbed=None if waiting is None else sum(map(undisturbed, rounds.bare)),
        drift=_drift(rounds.yardstick),
        single_threaded=single_threaded(rounds.bare),
    )


def processor_time(clocks: Sequence[PassClock]) -> Figure:
    """The CPU time of one pass, over all threads."""
    if not clocks:
        return unknown_figure("no pass was timed")
    alone = single_threaded(clocks)
    used = [clock.thread if alone else clock.process for clock in clocks]
    return figures.of_span(low_quartile_of(used), figures.PROCESSOR, len(clocks))


def quiet_pass(clocks: Sequence[PassClock]) -> Figure:
    """The time of bare passes without disturbances; unknown if no pass was undisturbed.

    Of a single-threaded pass, the time it waited for a processor can be subtracted.
    """
    calm = [clock.wall for clock in clocks if undisturbed(clock)]
    if calm:
        return figures.of_span(low_quartile_of(calm), figures.CLOCK, len(calm))
    if clocks and single_threaded(clocks):
        return figures.of_span(low_quartile_of(_awake(clocks)), figures.WITHOUT_WAITING, len(clocks))
    return unknown_figure(MACHINE_BUSY if clocks else "no pass was timed")


def processor_time_stands(rounds: Rounds, conditions: Conditions) -> bool:
    """Whether CPU time stands for the time of the pass: it is single-threaded, and waits for nothing else."""
    if not conditions.busy or not conditions.single_threaded or not rounds.processor:
        return False
    used = low_quartile_of([clock.thread for clock in rounds.bare]).ns
    return used >= _AWAKE * low_quartile_of(_awake(rounds.bare)).ns


def _awake(clocks: Sequence[PassClock]) -> list[float]:
    """The time of each pass without that spent waiting for a processor."""
    return [clock.wall - (clock.waited or 0) for clock in clocks]


def _busy(waiting: float | None, others: float | None) -> str:
    if waiting is not None:
        share = f"{100 * waiting:.0f} %" if waiting < 1 else f"{waiting:.1f} times the duration"
        return f"its threads waited {share} of the passes for a processor" if waiting > bench.BUSY else ""
    if others is not None and others > load.BUSY:
        return f"other processes used {100 * others:.0f} % of it"
    return ""


def _drift(yardstick: Sequence[int]) -> Figure:
    if len(yardstick) < QUARTERS:
        return unknown_figure("too few passes were timed")
    quarters = [low_quartile_of(part.tolist()).ns for part in np.array_split(np.asarray(yardstick), QUARTERS)]
    if not min(quarters):
        return unknown_figure("the clock is too coarse")
    return measured_figure(max(quarters) / min(quarters), _YARDSTICK, repeats=len(yardstick))
