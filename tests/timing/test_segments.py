"""Times rebuilt from segments: they close, survive disturbances, and their range covers the run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.timing.segments import (
    SETTLED_FROM,
    Estimates,
    SegmentedPasses,
    halves_agree,
    low_quartile_of,
)

CHAINS = [(), (0,), (0, 1), (0,), (0, 2), (0, 2, 3), (0, 2), (0,), ()]
TRUE_NS = np.array([10.0, 200.0, 5000.0, 300.0, 100.0, 9000.0, 50.0, 20.0, 5.0])
OP_SEGMENTS = np.array([2, 5, 5], np.intp)
OPS_NS = np.array([4800.0, 6000.0, 2500.0])


def passes_of(segments, ops, clock_ns=0.0):
    chains = [CHAINS[segment] for segment in OP_SEGMENTS]
    return SegmentedPasses(np.asarray(segments), CHAINS, np.asarray(ops), OP_SEGMENTS, chains, clock_ns)


times = st.lists(st.floats(0, 1e6), min_size=len(CHAINS), max_size=len(CHAINS))
op_times = st.lists(st.floats(0, 1e6), min_size=3, max_size=3)


@given(st.lists(times, min_size=1, max_size=9), st.lists(op_times, min_size=1, max_size=9), st.floats(0, 500))
def test_times_add_up_whatever_was_measured(segments, ops, clock_ns):
    estimates = Estimates(passes_of(segments, ops, clock_ns))
    whole = estimates.whole().ns
    own = [estimates.own(module).ns for module in range(4)]
    assert sum(own) + estimates.outside().ns == pytest.approx(whole)
    assert estimates.total(0).ns + estimates.outside().ns == pytest.approx(whole)
    assert estimates.total(1).ns + estimates.total(2).ns <= estimates.total(0).ns * (1 + 1e-9)
    assert estimates.total(3).ns <= estimates.total(2).ns * (1 + 1e-9)
    assert estimates.ops(range(3)).ns == pytest.approx(sum(estimates.ops([number]).ns for number in range(3)))
    assert estimates.ops(range(3)).ns <= whole * (1 + 1e-9)
    assert min(own) >= 0


def test_a_disturbance_in_every_pass_does_not_reach_the_times():
    """Each pass loses 8 ms in a random segment: the median pass carries it, the rebuilt one does not."""
    random = np.random.default_rng(0)
    segments, ops = np.tile(TRUE_NS, (40, 1)), np.tile(OPS_NS, (40, 1))
    segments[range(40), random.integers(0, len(CHAINS), 40)] += 8e6
    ops[range(40), random.integers(0, 3, 40)] += 8e6
    ops[:20] = OPS_NS  # an op is hit in a sixth of the passes
    estimates = Estimates(passes_of(segments, ops))
    assert estimates.whole().ns == pytest.approx(TRUE_NS.sum())
    assert estimates.outside().ns == pytest.approx(15.0)
    assert estimates.ops([1]).ns == pytest.approx(6000.0)
    assert np.median(segments.sum(axis=1)) > 500 * TRUE_NS.sum()


def test_two_ops_of_one_kind_keep_their_own_times():
    estimates = Estimates(passes_of(np.tile(TRUE_NS, (4, 1)), np.tile(OPS_NS, (4, 1))))
    assert [estimates.ops([number]).ns for number in range(3)] == OPS_NS.tolist()
    assert estimates.own(3).ns == pytest.approx(9000.0)


def test_ops_that_took_longer_than_their_segment_extend_it():
    ops = np.tile([4800.0, 9000.0, 2500.0], (4, 1))
    estimates = Estimates(passes_of(np.tile(TRUE_NS, (4, 1)), ops))
    assert estimates.own(3).ns == pytest.approx(11500.0)
    assert estimates.total(0).ns + estimates.outside().ns == pytest.approx(estimates.whole().ns)


def test_the_clock_is_subtracted_once_per_segment():
    estimates = Estimates(passes_of(np.tile(TRUE_NS + 40, (4, 1)), np.tile(OPS_NS, (4, 1)), clock_ns=40))
    assert estimates.whole().ns == pytest.approx(TRUE_NS.sum())


def test_the_range_covers_the_parts_of_a_run_that_slowed_down():
    speeds = np.repeat([1.0, 1.1, 1.2, 1.3], 6)[:, np.newaxis]
    whole = Estimates(passes_of(speeds * TRUE_NS, speeds * OPS_NS)).whole()
    assert whole.low_ns == pytest.approx(0.95 * TRUE_NS.sum())
    assert whole.high_ns == pytest.approx(1.05 * 1.3 * TRUE_NS.sum())
    assert whole.low_ns < whole.ns < whole.high_ns


def test_a_single_pass_has_no_range():
    whole = Estimates(passes_of([TRUE_NS], [OPS_NS])).whole()
    assert (whole.low_ns, whole.high_ns) == (None, None)
    assert low_quartile_of([5.0]) == (5.0, None, None)


@pytest.mark.parametrize(
    ("passes", "factor", "expected"), [(SETTLED_FROM, 1.02, True), (SETTLED_FROM, 1.1, False), (20, 1.0, False)]
)
def test_halves_agree_if_the_pass_and_the_slowest_modules_do(passes, factor, expected):
    half = passes // 2
    segments = [TRUE_NS] * half + [factor * TRUE_NS] * half
    assert halves_agree(segments, CHAINS) is expected


def test_halves_disagree_if_one_of_the_slowest_modules_does():
    other = TRUE_NS.copy()
    other[2] *= 1.08  # 2.7 % of the pass
    assert not halves_agree([TRUE_NS] * 12 + [other] * 12, CHAINS)
