"""Times on a busy machine: from rounds whose true times and disturbances are known."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import assay
from assay.analysis.achieved import achieved_rates
from assay.api.profile import pass_times
from assay.api.profile.conditions import judge, processor_time, quiet_pass
from assay.api.profile.pass_times import PassTimes
from assay.document.provenance import Measured
from assay.timing.bench import PassClock
from assay.timing.module_clock import CallEvents
from assay.timing.op_clock import TimedOp
from assay.timing.rounds import ClockedPass, Rounds
from assay.views.text.profile import profile_report
from assay.views.text.profile_modules import module_table
from assay.views.text.report import as_text

MS = 1_000_000
LINEAR = torch.ops.aten.linear.default
# The pass: 10 µs outside, 50 µs in the root, 4 ms in module 0, 50 µs, 12 ms in module 1, 50 µs, 10 µs outside.
SEGMENTS = [10_000, 50_000, 4 * MS, 50_000, 12 * MS, 50_000, 10_000]
OPS = [int(3.9 * MS), int(11.8 * MS)]
EVENTS = (0, 1, -1, 2, -1, -1)
WHOLE = sum(SEGMENTS)


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Clocks without overhead."""
    monkeypatch.setattr(pass_times, "clock_cost_ns", lambda read: 0.0)
    monkeypatch.setattr(pass_times, "stamp_cost_ns", lambda: 0)


@pytest.fixture(scope="module")
def document():
    return assay.observe(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), torch.zeros(8, 64))


def clock(waited=0, threads=1, cpu=WHOLE):
    """The clock of a pass that waited; all threads together used `threads` times the CPU time of the first."""
    return PassClock(0, WHOLE + waited, WHOLE + waited, waited, threads * cpu, 0, cpu)


def clocked(hit=None, waited=0, *, by_processor=False, ops=False, threads=1):
    """A pass that waited in segment `hit`, or with `ops` in the op with that number."""
    segments = list(SEGMENTS)
    walls = list(OPS)
    if ops and hit is not None:
        walls[hit] += waited
    elif hit is not None and not by_processor:
        segments[hit] += waited
    times = [sum(segments[: index + 1]) for index in range(len(EVENTS))]
    timed = [TimedOp(LINEAR, 0, wall, cpu) for wall, cpu in zip(walls, OPS, strict=True)] if ops else []
    return ClockedPass(clock(waited, threads), CallEvents(EVENTS, times), by_processor, timed, [2, 4][: len(timed)])


def busy_rounds(waited, *, threads=1, calm=0, passes=12):
    """Rounds in which all passes but `calm` waited in their longest segment."""
    rounds = Rounds("cpu")
    for number in range(passes):
        lost = 0 if number < calm else waited
        rounds.bare.append(clock(lost, threads))
        rounds.modules.append(clocked(4, lost, threads=threads))
        rounds.ops.append(clocked(1, lost, ops=True, threads=threads))
        if threads == 1 and lost:
            rounds.processor.append(clocked(4, lost, by_processor=True))
        rounds.yardstick.append(MS)
    return rounds


def with_times(document, rounds):
    from msgspec.structs import replace

    from assay.document.profile import Profile

    times = PassTimes(rounds, document, 0.0)
    profile = Profile(passes=len(rounds.bare), whole=times.whole, processor=processor_time(rounds.bare),
                      kinds=times.kinds(), ops=times.ops(), conditions=times.conditions)  # fmt: skip
    return replace(document, timing=times.timing(), profile=profile)


def check_true_times(timed):
    root, first, second = timed.timing.modules
    assert timed.timing.whole.value == pytest.approx(WHOLE / 1e9)
    assert timed.timing.outside.value == pytest.approx(20e-6)
    assert (first.total_s, second.total_s) == pytest.approx((4e-3, 12e-3))
    assert root.self_s == pytest.approx(150e-6)
    assert timed.profile.ops == pytest.approx([3.9e-3, 11.8e-3])
    assert (first.self_share, second.self_share) == pytest.approx((4 * MS / WHOLE, 12 * MS / WHOLE))


def test_a_quiet_machine(document):
    timed = with_times(document, busy_rounds(0))
    check_true_times(timed)
    assert not timed.profile.conditions.busy
    assert timed.profile.conditions.undisturbed == 12
    assert timed.profile.conditions.rates == "time"
    assert "busy" not in as_text(profile_report(timed, achieved_rates(timed)))


def test_disturbances_spread_over_the_segments_do_not_reach_the_times(document):
    """A tenth of the passes is hit in the long op: too few for its lower quartile."""
    rounds = busy_rounds(0, threads=2, passes=20)
    rounds.modules[3:5] = [clocked(4, 40 * MS, threads=2)] * 2
    rounds.ops[7:9] = [clocked(0, 40 * MS, ops=True, threads=2)] * 2
    check_true_times(with_times(document, rounds))


def test_a_single_threaded_pass_that_always_waits_is_timed_by_its_cpu_time(document):
    timed = with_times(document, busy_rounds(50 * MS))
    check_true_times(timed)
    conditions = timed.profile.conditions
    assert conditions.waiting.value == pytest.approx(50 * MS / (50 * MS + WHOLE))
    assert conditions.undisturbed == 0
    assert conditions.rates == "processor"
    assert not conditions.withheld
    assert "CPU time" in timed.timing.whole.how.by
    assert timed.timing.as_run.value == pytest.approx((50 * MS + WHOLE) / 1e9)
    rows = achieved_rates(timed)
    assert [row.flops_per_s for row in rows] == pytest.approx([rows[0].flops * 1e9 / ns for ns in reversed(OPS)])
    text = as_text(profile_report(timed, rows))
    assert text.count("machine busy") == 1
    assert "waited 76 % of the passes" in text


def test_several_threads_that_always_wait_give_shares_and_no_times(document):
    timed = with_times(document, busy_rounds(50 * MS, threads=2))
    conditions = timed.profile.conditions
    assert conditions.withheld
    assert conditions.rates == ""
    assert timed.timing.whole.value is None
    assert "machine busy" in timed.timing.whole.how.why
    assert all(row.total_s is None and row.self_s is None for row in timed.timing.modules)
    assert sum(row.self_share for row in timed.timing.modules) <= 1
    rows = achieved_rates(timed)
    for row in rows:
        assert (row.total_s, row.flops_per_s, row.bound, row.recoverable_s) == (None, None, "unknown", None)
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert timed.profile.ops == [None, None]
    table = module_table(timed).values()
    assert "total s" not in table[0]
    text = as_text(profile_report(timed, rows))
    assert "times are withheld" in text
    assert re.search("unknown +machine busy", text)


def test_several_threads_are_timed_by_their_undisturbed_passes(document):
    timed = with_times(document, busy_rounds(50 * MS, threads=2, calm=2))
    check_true_times(timed)
    assert timed.profile.conditions.undisturbed == 2
    assert timed.profile.conditions.rates == "time"
    assert "those of the undisturbed passes" in as_text(profile_report(timed, achieved_rates(timed)))


def test_a_pass_that_sleeps_is_not_timed_by_its_cpu_time(document):
    """CPU time is half of the pass: the other half waits for something that is not a processor."""
    rounds = busy_rounds(50 * MS)
    rounds.bare = [PassClock(0, WHOLE + 50 * MS, WHOLE + 50 * MS, 50 * MS, WHOLE // 2, 0, WHOLE // 2)] * 12
    timed = with_times(document, rounds)
    assert timed.profile.conditions.withheld
    assert timed.timing.whole.value is None


def test_an_unknown_wait_is_judged_by_the_load_of_others(document):
    rounds = busy_rounds(0, threads=2)
    rounds.bare = [each._replace(waited=None) for each in rounds.bare]
    assert judge(rounds, 0.0).busy == ""
    assert judge(rounds, 0.0).waiting.value is None
    assert judge(rounds, 0.5).busy == "other processes used 50 % of it"


def test_passes_with_other_ops_have_no_times_of_ops(document):
    rounds = busy_rounds(0)
    rounds.ops = [each._replace(ops=each.ops[:1], op_segments=[2]) for each in rounds.ops]
    timed = with_times(document, rounds)
    assert timed.profile.ops == [None, None]
    assert timed.profile.kinds == [None, None]
    assert timed.timing.whole.value == pytest.approx(WHOLE / 1e9)


def test_a_quiet_time_of_bare_passes():
    assert quiet_pass([clock()] * 3 + [clock(MS)]).value == pytest.approx(WHOLE / 1e9)
    alone = quiet_pass([clock(50 * MS)] * 4)
    assert alone.value == pytest.approx(WHOLE / 1e9)
    assert "less the time spent waiting" in alone.how.by
    assert quiet_pass([clock(50 * MS, threads=2)] * 4).value is None
    assert quiet_pass([]).how.why == "no pass was timed"


def test_a_drifting_machine_is_reported(document):
    rounds = busy_rounds(0)
    rounds.yardstick = [MS] * 6 + [2 * MS] * 6
    timed = with_times(document, rounds)
    assert timed.profile.conditions.drift.value == pytest.approx(2.0)
    assert "varied by 100.0 %" in as_text(profile_report(timed, []))


def test_ranges_and_provenance_are_those_of_the_run(document):
    timed = with_times(document, busy_rounds(0))
    how = timed.timing.whole.how
    assert isinstance(how, Measured)
    assert how.range == pytest.approx((0.95 * WHOLE / 1e9, 1.05 * WHOLE / 1e9))
    assert timed.timing.columns["modules.total_s"].by == how.by
    assert (timed.timing.modules[1].low_s, timed.timing.modules[1].high_s) == pytest.approx((3.8e-3, 4.2e-3))


def test_the_energy_of_withheld_passes_is_unknown(document):
    from assay.api.profile.modelled_energy import modelled_pass
    from assay.document.machine import Hardware, MachineReport

    report = MachineReport(Hardware("cpu", "a processor", cores=2))
    withheld = with_times(document, busy_rounds(50 * MS, threads=2))
    assert "machine busy" in modelled_pass(withheld, report).how.why
    known = with_times(document, busy_rounds(50 * MS))
    assert modelled_pass(known, report).value == pytest.approx(6 * WHOLE / 1e9)


def test_passes_that_took_different_paths_are_counted(document):
    rounds = busy_rounds(0)
    other = rounds.modules[0]._replace(events=CallEvents((0, -1), [10_000, 20_000]))
    rounds.modules[3] = other
    assert PassTimes(rounds, document, 0.0).paths.startswith("the 11 of 12 passes")
    assert PassTimes(busy_rounds(0), document, 0.0).paths == ""
