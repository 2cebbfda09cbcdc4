"""The results of trials in the findings they belong to."""

from __future__ import annotations

import pytest

from assay.document.findings import BYTES, ENERGY, MEMORY, TIME, Finding, Gain
from assay.document.provenance import Counted, Figure, Measured
from assay.document.trials import (
    DIFFERENT,
    FAILED,
    FASTER,
    INCONCLUSIVE,
    LOSSY,
    SAME,
    SKIPPED,
    SLOWER,
    OutputError,
    TrialResult,
)
from assay.findings.verified import verdict_line, verified


def figure(value, low=None, high=None):
    return Figure(value, Measured("clock", 24, range=None if low is None else (low, high)))


def trial(verdict, speedup=None, name="channels_last", **fields):
    low, high = (speedup * 0.98, speedup * 1.02) if speedup else (None, None)
    speed = {"speedup": figure(speedup, low, high), "before": figure(0.010)} if speedup else {}
    return TrialResult((name,), ("C401",), verdict=verdict, **{**speed, **fields})


ERROR = OutputError(max_abs=0.002, max_rel=0.001)
MEMORIES = {"memory_before": figure(1000), "memory_after": figure(880)}


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (trial(FASTER, 1.43, outputs=ERROR, **MEMORIES), "1.43× [1.40–1.46], max |Δ| 2e-3, peak −12 %"),
        (
            trial(SLOWER, 0.83, outputs=OutputError(0, 0, identical=True)),
            "slower: 0.83× [0.81–0.85], identical outputs",
        ),
        (trial(SAME, 1.01), "no difference (1.01 [0.99–1.03])"),
        (trial(INCONCLUSIVE, 1.04, outputs=ERROR, detail="too busy"), "inconclusive (1.04 [1.02–1.06]), too busy"),
        (trial(FAILED, detail="crashed with SIGSEGV"), "failed: crashed with SIGSEGV"),
        (trial(DIFFERENT, outputs=ERROR), "different outputs: max |Δ| 2e-3"),
        (trial(DIFFERENT, outputs=OutputError(0.25, 0.1)), "different outputs: max |Δ| 0.25"),
        (trial(SKIPPED, detail="no convolutions"), "not applicable: no convolutions"),
        (
            trial(FASTER, 2.0, energy_before=figure(1.0), energy_after=figure(2.6), items=2.0),
            "2.00× [1.96–2.04], energy +30 %",
        ),
    ],
)
def test_a_result_reads_as_one_line_whatever_it_is(result, line):
    assert verdict_line(result) == line


def finding(of=None, code="C401"):
    how = Counted("predicted")
    gain = None if of is None else Gain(of, Figure(7.0, how), Figure(0.7, how))
    return Finding(code, "advice", "title", "Do it.", gain=gain)


def test_a_measured_gain_replaces_the_predicted_one():
    (tried,) = verified([finding(TIME)], [trial(FASTER, 1.25)])
    assert tried.verified.startswith("1.25×")
    assert tried.gain.share.value == pytest.approx(0.2)
    assert tried.gain.amount.value == pytest.approx(2.0), "of the pass that the prediction was about"
    assert isinstance(tried.gain.amount.how, Measured)


def test_a_loss_is_a_negative_gain():
    (tried,) = verified([finding(TIME)], [trial(SLOWER, 0.8)])
    assert tried.gain.share.value == pytest.approx(-0.25)


@pytest.mark.parametrize(("of", "share"), [(MEMORY, 0.12), (ENERGY, 0.5)])
def test_a_gain_of_memory_or_energy_is_measured_as_such(of, share):
    result = trial(SAME, 1.0, energy_before=figure(2.0), energy_after=figure(1.0), **MEMORIES)
    (tried,) = verified([finding(of)], [result])
    assert (tried.gain.of, tried.gain.share.value) == (of, pytest.approx(share))


@pytest.mark.parametrize("verdict", [INCONCLUSIVE, DIFFERENT, FAILED, SKIPPED])
def test_what_was_not_measured_clearly_leaves_the_prediction(verdict):
    (tried,) = verified([finding(TIME)], [trial(verdict, 1.3)])
    assert tried.gain == finding(TIME).gain
    assert tried.verified


def test_stored_bytes_keep_their_count():
    (tried,) = verified([finding(BYTES)], [trial(FASTER, 1.3)])
    assert tried.gain.of == BYTES


def test_the_best_of_several_changes_is_named():
    results = [trial(SLOWER, 0.9, "a"), trial(FASTER, 1.2, "b"), trial(FASTER, 1.5, "c"), trial(FAILED, name="d")]
    (tried,) = verified([finding(TIME)], results)
    assert tried.verified.startswith("c: 1.50×")


def test_only_single_changes_of_the_same_rule_against_the_original_count():
    stack = TrialResult(("a", "b"), ("C401",), verdict=FASTER, speedup=figure(3.0), effect=LOSSY)
    step = TrialResult(("a",), ("C401",), ("b",), verdict=FASTER, speedup=figure(3.0))
    findings = [finding(TIME), finding(TIME, "S203")]
    assert verified(findings, [stack, step]) == findings
