"""Two versions timed against each other: verdicts on simulated machines, the choice of the clock, and the rounds."""

from __future__ import annotations

import math
import random
from itertools import groupby

import pytest
import torch
from clocks import ManualClock
from timing_noise import NOISES, clock, machine

from assay.document.trials import FASTER, INCONCLUSIVE, SAME, SLOWER
from assay.timing.pairs import LOOKS, PROCESSOR, TIME, PairRound, PairSide, judged, repeat_rounds, time_pairs
from assay.timing.ratios import RatioInterval, ratio_interval, verdict_of

TRIALS = 40
ROUND_S = 0.05


def tried(noise, seed, speedup=1.0, placed=0.0, seconds=2.0):
    """The result of a trial on a simulated machine, in simulated time."""
    ticking, measure = ManualClock(), machine(noise, seed, speedup, placed)

    def round_():
        ticking.ns += round(ROUND_S * 1e9)
        return measure()

    return repeat_rounds(round_, seconds, clock=ticking)


def same(before=1e6, after=1e6, **options):
    """A round without noise."""
    return PairRound((clock(before, **options),) * 2, (clock(after, **options),) * 2)


@pytest.mark.parametrize("placed", [0.0, 0.03])
@pytest.mark.parametrize("noise", NOISES)
def test_a_model_is_never_faster_than_itself(noise, placed):
    found = [tried(noise, seed, placed=placed) for seed in range(TRIALS)]
    assert {each.verdict for each in found} <= {SAME, INCONCLUSIVE}
    assert sum(each.low <= 1 <= each.high for each in found) >= 0.9 * TRIALS


@pytest.mark.parametrize("noise", NOISES)
def test_intervals_contain_a_known_gain_and_no_loss_is_reported(noise):
    found = [tried(noise, seed, speedup=1.1, placed=0.01) for seed in range(TRIALS)]
    assert sum(each.low <= 1.1 <= each.high for each in found) >= 0.9 * TRIALS
    assert SLOWER not in {each.verdict for each in found}


@pytest.mark.parametrize(("speedup", "verdict"), [(1.3, FASTER), (1 / 1.3, SLOWER), (1.1, FASTER)])
def test_a_clear_difference_is_found_on_a_machine_with_little_noise(speedup, verdict):
    found = [tried(NOISES[0], seed, speedup, seconds=10.0).verdict for seed in range(20)]
    assert found == [verdict] * 20


def test_the_interval_allows_for_ratios_that_are_correlated_over_rounds():
    covered = 0
    for seed in range(100):
        rng, level, logs = random.Random(seed), 0.0, []
        for _ in range(96):
            level = 0.8 * level + rng.gauss(0, 0.02)
            logs.append([level])
        found = ratio_interval(logs)
        covered += found.low <= 1 <= found.high
    assert covered >= 93  # far fewer if single rounds are resampled


@pytest.mark.parametrize(
    ("interval", "null", "verdict"),
    [
        ((1.10, 1.03, 1.17), (1.0, 0.99, 1.01), FASTER),
        ((1.10, 1.03, 1.17), (1.0, 0.95, 1.05), INCONCLUSIVE),  # the noise alone reaches 5 %
        ((1.03, 1.01, 1.05), (1.0, 0.99, 1.01), INCONCLUSIVE),
        ((0.90, 0.85, 0.95), (1.0, 0.99, 1.01), SLOWER),
        ((1.00, 0.99, 1.01), (1.0, 0.99, 1.01), SAME),
        ((1.00, 0.97, 1.03), (1.0, 0.96, 1.04), SAME),
        ((1.00, 0.90, 1.10), (1.0, 0.80, 1.25), INCONCLUSIVE),  # too noisy to show that nothing changed
    ],
)
def test_a_verdict_needs_more_than_the_margin_and_the_noise(interval, null, verdict):
    assert verdict_of(RatioInterval(*interval), RatioInterval(*null)) == verdict


def test_a_round_without_noise_needs_no_second_look():
    calls = []
    found = repeat_rounds(lambda: calls.append(1) or same(after=5e5), 100.0)
    assert len(calls) == found.rounds == LOOKS[0]
    assert (found.verdict, found.low, found.high) == (FASTER, pytest.approx(2), pytest.approx(2))
    assert (found.before_s, found.after_s) == (pytest.approx(1e-3), pytest.approx(5e-4))


def test_rounds_are_added_while_the_interval_is_wide_and_time_is_left():
    assert tried(NOISES[-1], 0, speedup=1.3, seconds=100.0).rounds in LOOKS[1:]
    assert tried(NOISES[-1], 0, speedup=1.3, seconds=1.0).rounds == round(1.0 / ROUND_S)


def test_too_few_rounds_are_not_judged():
    found = tried(NOISES[0], 0, speedup=2.0, seconds=ROUND_S)
    assert (found.verdict, found.rounds, found.speedup) == (INCONCLUSIVE, 2, None)
    assert "2 rounds" in found.detail


def test_more_items_per_pass_count():
    found = judged([same()] * 12, items=4.0)
    assert (found.verdict, found.speedup) == (FASTER, pytest.approx(4))


def test_passes_of_a_burst_are_averaged():
    found = judged([same()._replace(passes=10)] * 12)
    assert found.before_s == pytest.approx(1e-4)


def delayed(rng, after):
    """A round of one thread on a busy machine: most of the time, it waits."""
    sides = []
    for ns in (1e6, after):
        waits = [rng.expovariate(1e-6) for _ in range(2)]
        sides.append(tuple(clock(ns + wait, waited=wait, thread=ns) for wait in waits))
    return PairRound(*sides)


def test_on_a_busy_machine_single_threads_are_compared_by_cpu_time():
    rng = random.Random(0)
    found = judged([delayed(rng, 8e5) for _ in range(24)])
    assert (found.clock, found.verdict, found.speedup) == (PROCESSOR, FASTER, pytest.approx(1.25))
    assert found.before_s == pytest.approx(1e-3)


def test_on_an_accelerator_cpu_time_is_not_compared():
    rng = random.Random(0)
    assert judged([delayed(rng, 8e5) for _ in range(24)], on_cpu=False).clock == TIME


def test_several_threads_on_a_busy_machine_are_compared_in_the_rounds_without_waits():
    busy = same(before=3e6, after=9e6, waited=1e6, thread=1e6, process=2e6)
    calm = same(after=5e5, thread=1e6, process=2e6)
    found = judged([busy, calm] * 12)
    assert (found.clock, found.rounds, found.verdict, found.speedup) == (TIME, 12, FASTER, pytest.approx(2))
    few = judged([busy] * 12 + [calm] * 11)
    assert few.verdict == INCONCLUSIVE
    assert few.detail.startswith("machine too busy")


def test_every_burst_follows_a_run_of_the_same_version():
    log = []

    def side(name):
        def run():
            log.append(name)
            math.fsum(range(200_000))  # longer than what is run in bursts

        return PairSide(run)

    found = time_pairs(side("a"), side("b"), torch.device("cpu"), seconds=0.0, place=lambda: log.append("moved"))
    assert found.rounds == 1
    last_round = log[len(log) - log[::-1].index("moved") :]
    assert last_round[:2] == ["a", "b"]
    timed = "".join(last_round)
    # After the move, each version runs once; then at least twice in a row, to fill the cache and to be timed.
    assert all(len(list(run)) >= 2 for _, run in groupby(timed[1:]))


def test_short_passes_run_in_bursts_on_both_sides_alike():
    counts = {"a": 0, "b": 0}

    def side(name):
        def run():
            counts[name] += 1

        return PairSide(run)

    found = time_pairs(side("a"), side("b"), torch.device("cpu"), seconds=0.0)
    assert found.before_s < 1e-3
    assert min(counts.values()) > 100
    assert max(counts.values()) - min(counts.values()) <= 2


def test_on_an_accelerator_passes_are_launched_in_bursts_between_two_waits(monkeypatch):
    log = []
    monkeypatch.setattr("assay.timing.pairs.synchronizer", lambda device: lambda: log.append("wait"))
    side = PairSide(lambda: log.append("run"))
    time_pairs(side, side, torch.device("cuda"), seconds=0.0)
    bursts = [len(list(run)) for what, run in groupby(log) if what == "run"]
    assert log[0] == log[-1] == "wait"
    assert bursts[-1] > 100
    grown = time_pairs(side._replace(in_bursts=False), side, torch.device("cuda"), seconds=0.0)
    assert grown.rounds == 1
    assert log[-3:] == ["wait", "run", "wait"]
