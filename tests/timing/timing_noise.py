"""Simulated rounds of two versions of a model on machines with noise that is correlated in time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from assay.timing.bench import PassClock
from assay.timing.pairs import PairRound

Noise = Iterator[float]
"""The factor by which each pass in turn takes longer."""


def independent(rng: random.Random) -> Noise:
    """Every pass differs a little."""
    while True:
        yield rng.lognormvariate(0, 0.03)


def drift(rng: random.Random) -> Noise:
    """The speed of the machine wanders by tens of percent."""
    level = 0.0
    while True:
        level = 0.98 * level + rng.gauss(0, 0.04)
        yield 2.0**level * rng.lognormvariate(0, 0.01)


def bursts(rng: random.Random) -> Noise:
    """Now and then, all passes of a stretch take up to three times as long."""
    while True:
        for _ in range(rng.randint(20, 120)):
            yield rng.lognormvariate(0, 0.01)
        for _ in range(rng.randint(5, 60)):
            yield rng.uniform(1.0, 3.0)


def two_speeds(rng: random.Random) -> Noise:
    """The machine switches between two speeds, after a few passes or after many."""
    speed = 1.0
    while True:
        for _ in range(int(rng.expovariate(1 / rng.choice((3, 40)))) + 1):
            yield speed * rng.lognormvariate(0, 0.01)
        speed = 2.6 - speed


def preempted(rng: random.Random) -> Noise:
    """A third of the passes are interrupted, for as long as they take or longer."""
    while True:
        yield rng.lognormvariate(0, 0.01) * (1.0 if rng.random() < 0.66 else 1.0 + rng.expovariate(0.5))


NOISES = (independent, drift, bursts, two_speeds, preempted)


def clock(ns: float, *, waited: float = 0.0, thread: float | None = None, process: float | None = None) -> PassClock:
    """A pass of `ns` nanoseconds."""
    thread_ns = round(ns if thread is None else thread)
    used = thread_ns if process is None else round(process)
    return PassClock(0, round(ns), round(ns), round(waited), used, 0, thread_ns)


def machine(
    noise: Callable[[random.Random], Noise], seed: int, speedup: float = 1.0, placed: float = 0.0
) -> Callable[[], PairRound]:
    """A function that simulates a round; memory placement changes the ratio by about `placed`."""
    rng = random.Random(seed)
    factors = noise(rng)

    def measure() -> PairRound:
        place = rng.lognormvariate(0, placed)
        runs: tuple[list[PassClock], list[PassClock]] = ([], [])
        for side in rng.sample((0, 0, 1, 1), 4):
            ns = 1e6 * next(factors) * (place / speedup if side else 1.0)
            runs[side].append(clock(ns))
        return PairRound((runs[0][0], runs[0][1]), (runs[1][0], runs[1][1]))

    return measure
