"""Two versions of a model timed against each other, in rounds in which both run twice in random order.

The original's two runs of a round give its ratio to itself, which shows the noise of the machine. Both versions run
equally often, each right after a run of itself: otherwise, the one that ran last would find its weights in the cache.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import torch

from assay.document.trials import INCONCLUSIVE, SLOWER
from assay.machine.waiting import ProcessorWait
from assay.messages import plural
from assay.recorder.watch import garbage_collection_paused
from assay.timing.bench import BUSY, PassClock, clocked, single_threaded, undisturbed, waiting_share
from assay.timing.device import now, synchronizer
from assay.timing.ratios import FEWEST, MARGIN, RatioInterval, ratio_interval, verdict_of

TIME, PROCESSOR = "time", "processor"
LOOKS = (12, 24, 48, 96, 192)
"""Numbers of rounds after which results are looked at; each look is another chance of a false verdict."""
PRECISE = 0.01
"""Rounds are added until half the width of the interval is at most this share."""
_SHORT_NS = 100_000
"""Shorter passes are run in bursts."""
_BURST_NS = 1_000_000
_DEVICE_BURST_NS = 50_000_000
"""Bursts on an accelerator are long, so that launches overlap with running kernels."""
_FAR = 3.0
"""A model that takes this many times as long is slower, however few rounds there are."""
_LONG_NS = 300_000_000
"""A longer pass does not depend on what an earlier one left in the cache."""


@dataclass(frozen=True)
class PairedTimes:
    """The time of the original divided by that of the changed model, per item, and what follows from it."""

    verdict: str
    """`faster`, `slower`, `no difference` or `inconclusive`."""
    rounds: int
    """The rounds that were compared."""
    clock: str
    """`time`, or `processor` if CPU time was compared."""
    before_s: float
    after_s: float
    """Seconds per pass of the original and of the changed model, medians."""
    detail: str = ""
    """What limits the verdict."""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    null: float | None = None
    """The same ratio of the original to itself."""
    null_low: float | None = None
    null_high: float | None = None


class PairRound(NamedTuple):
    """One round: bursts of both versions, each twice."""

    before: tuple[PassClock, PassClock]
    after: tuple[PassClock, PassClock]
    passes: int = 1
    """Passes per burst."""


class PairSide(NamedTuple):
    """One of the two versions."""

    run: Callable[[], object]
    ready: Callable[[], object] = lambda: None
    """Called before each burst and not timed: clears gradients, copies arguments that a pass changes."""
    in_bursts: bool = True
    """Whether several passes can run between two calls of `ready`."""
    settings: Callable[[], AbstractContextManager[object]] = nullcontext
    """Makes a context to run passes in; entering it is not timed."""


def time_pairs(
    before: PairSide,
    after: PairSide,
    device: torch.device,
    *,
    items: float = 1.0,
    seconds: float = 10.0,
    seed: int = 0,
    place: Callable[[], object] = lambda: None,
) -> PairedTimes:
    """Both versions timed for about `seconds`; `place` moves their weights to other places in memory.

    `items` is the number of items per pass of the changed model, relative to the original.
    """
    order = random.Random(seed)
    with garbage_collection_paused(), ProcessorWait() as waiting:
        pairs = _Pairs(before, after, synchronizer(device), waiting, order, place)
        pairs.prepare(on_accelerator=device.type != "cpu", seconds=seconds)
        return repeat_rounds(pairs.round, seconds, items=items, on_cpu=device.type == "cpu")


def repeat_rounds(
    measure: Callable[[], PairRound],
    seconds: float,
    *,
    items: float = 1.0,
    on_cpu: bool = True,
    clock: Callable[[], int] = now,
) -> PairedTimes:
    """Rounds until the verdict is clear and precise or `seconds` have passed; fewer than 12 only after twice that."""
    rounds: list[PairRound] = []
    begin = clock()
    while True:
        rounds.append(measure())
        spent_s = (clock() - begin) / 1e9
        over = spent_s >= seconds * (1 if len(rounds) >= LOOKS[0] else 2)
        if over or len(rounds) in LOOKS:
            result = judged(rounds, items=items, on_cpu=on_cpu)
            if over or len(rounds) == LOOKS[-1] or _settled(result):
                return result


def judged(rounds: Sequence[PairRound], *, items: float = 1.0, on_cpu: bool = True) -> PairedTimes:
    """What the rounds show.

    On a busy machine, CPU time is compared if both versions use one thread, and otherwise only the rounds in which no
    thread waited for a processor.
    """
    chosen, clock, detail = _comparable(rounds, on_cpu)
    before_s, after_s = (
        median(_ns(each, clock) / one.passes for one in chosen for each in side(one)) / 1e9
        for side in (_before, _after)
    )
    if len(chosen) < FEWEST and not detail and after_s / items > _FAR * before_s:
        slow = f"about {after_s / items / before_s:.2g} times as slow"
        detail = f"{slow}: only {plural(len(chosen), 'round')} in the time given"
        return PairedTimes(SLOWER, len(chosen), clock, before_s, after_s, detail)
    if len(chosen) < FEWEST:
        detail = detail or f"only {plural(len(chosen), 'round')} in the time given: allow more time"
        return PairedTimes(INCONCLUSIVE, len(chosen), clock, before_s, after_s, detail)
    logs = [[[math.log(_ns(each, clock)) for each in side(one)] for side in (_before, _after)] for one in chosen]
    speedup = ratio_interval([[x - y + math.log(items) for x, y in zip(a, b, strict=True)] for a, b in logs])
    null = ratio_interval([[a[0] - a[1]] for a, _ in logs])
    verdict = INCONCLUSIVE if detail else verdict_of(speedup, null)
    return PairedTimes(
        verdict, len(chosen), clock, before_s, after_s, detail or _limits(verdict, speedup), *speedup, *null
    )


def _limits(verdict: str, speedup: RatioInterval) -> str:
    """Why there is no verdict; empty if there is one."""
    if verdict != INCONCLUSIVE:
        return ""
    if speedup.half_width <= MARGIN:
        return "the difference is too close to the smallest one that counts"
    return f"the interval of ±{100 * speedup.half_width:.0f} % is too wide: allow more time, or use a quieter machine"


def _settled(result: PairedTimes) -> bool:
    if result.verdict == INCONCLUSIVE or result.low is None or result.high is None:
        return False
    return math.sqrt(result.high / result.low) - 1 <= PRECISE


def _comparable(rounds: Sequence[PairRound], on_cpu: bool) -> tuple[Sequence[PairRound], str, str]:
    """The rounds to compare, by which clock, and the reason if the machine was too busy."""
    sides = [[clock for one in rounds for clock in side(one)] for side in (_before, _after)]
    waited = waiting_share([*sides[0], *sides[1]])
    if (waited or 0.0) <= BUSY:
        return rounds, TIME, ""
    if on_cpu and all(map(single_threaded, sides)):
        return rounds, PROCESSOR, ""
    calm = [one for one in rounds if all(map(undisturbed, (*one.before, *one.after)))]
    if len(calm) >= LOOKS[0]:
        return calm, TIME, ""
    return rounds, TIME, f"machine too busy: threads waited for a processor {100 * (waited or 0.0):.0f} % of the time"


def _before(one: PairRound) -> tuple[PassClock, PassClock]:
    return one.before


def _after(one: PairRound) -> tuple[PassClock, PassClock]:
    return one.after


def _ns(clock: PassClock, by: str) -> int:
    return max(clock.thread if by == PROCESSOR else clock.wall, 1)


class _Pairs:
    """Measures rounds."""

    def __init__(
        self,
        before: PairSide,
        after: PairSide,
        wait: Callable[[], None],
        waiting: ProcessorWait,
        order: random.Random,
        place: Callable[[], object],
    ) -> None:
        self._sides = (before, after)
        self._wait, self._waiting, self._order, self._place = wait, waiting, order, place
        self._passes = 1
        self._last = -1
        self._primed = True

    def prepare(self, *, on_accelerator: bool, seconds: float) -> None:
        """Warm up both versions and choose the number of passes per burst, which is the same for both."""
        fastest, slowest = math.inf, 0.0
        for side in (0, 1):
            took = self._burst(side).wall
            if took < seconds * 1e9 / 100:
                took = min(self._burst(side).wall for _ in range(3))
            fastest, slowest = min(fastest, took), max(slowest, took)
        self._primed = slowest < _LONG_NS
        if not all(side.in_bursts for side in self._sides):
            return
        if on_accelerator:
            self._passes = max(1, round(_DEVICE_BURST_NS / fastest))
        elif fastest < _SHORT_NS:
            self._passes = math.ceil(_BURST_NS / fastest)

    def round(self) -> PairRound:
        """One round, with the weights at other places in memory than in the round before."""
        if self._primed:
            self._place()
            self._prime(0)
            self._prime(1)
        clocks: tuple[list[PassClock], list[PassClock]] = ([], [])
        for side in self._order.sample((0, 0, 1, 1), 4):
            if self._primed and side != self._last:
                self._prime(side)
            clocks[side].append(self._burst(side))
        # In random order, because the first runs of a round tend to be slower than the last.
        before, after = (self._order.sample(each, 2) for each in clocks)
        return PairRound((before[0], before[1]), (after[0], after[1]), self._passes)

    def _prime(self, side: int) -> None:
        self._sides[side].ready()
        with self._sides[side].settings():
            self._sides[side].run()
        self._wait()
        self._last = side

    def _burst(self, side: int) -> PassClock:
        run, ready, _, settings = self._sides[side]
        passes = range(self._passes)

        def burst() -> None:
            for _ in passes:
                run()

        ready()
        self._last = side
        with settings():
            return clocked(burst, self._wait, self._waiting)
