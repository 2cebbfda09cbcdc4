"""The greedy search for the best stack, with changes whose effect on the cost is stated exactly."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.document.provenance import Figure, Measured
from assay.document.trials import FASTER, SAME, SLOWER, TrialResult
from assay.trials.search import search_best


@pytest.fixture(autouse=True)
def _order_by_name(monkeypatch):
    monkeypatch.setattr("assay.trials.search.stack_order", sorted)


def runner(cost, items=None):
    """Runs trials by the stated cost of a set of changes."""

    def result(trial):
        speedup = cost(trial.against) / cost(trial.changes)
        verdict = FASTER if speedup > 1.02 else SLOWER if speedup < 0.98 else SAME
        return TrialResult(
            trial.changes,
            (),
            trial.against,
            verdict=verdict,
            speedup=Figure(speedup, Measured("stated")),
            items=(items or {}).get(trial.changes[0], 1.0),
        )

    return lambda trials: [result(trial) for trial in trials]


def product_of(factors):
    return lambda names: float(math.prod(factors[name] for name in names))


def best(factors, **options):
    run = runner(product_of(factors), **options)
    return search_best(list(factors), run, run)


def test_what_helps_is_stacked_from_the_best_down():
    found = best({"a": 0.9, "b": 0.5, "c": 1.2, "d": 1.0, "e": 0.7})
    assert [each.name for each in found.alone] == ["a", "b", "c", "d", "e"]
    assert [(each.changes, each.against) for each in found.steps] == [
        (("b", "e"), ("b",)),
        (("a", "b", "e"), ("b", "e")),
    ]
    assert (found.final.changes, found.final.against) == (("a", "b", "e"), ())
    assert found.final.speedup.value == pytest.approx(1 / (0.9 * 0.5 * 0.7))
    assert found.results[-1] is found.final


def test_a_step_that_does_not_help_on_top_is_not_kept():
    alone = {(): 1.0, ("a",): 0.5, ("b",): 0.8}
    run = runner(lambda names: alone.get(names, 0.55))
    found = search_best(["a", "b"], run, run)
    assert [each.verdict for each in found.steps] == [SLOWER]
    assert found.final.changes == ("a",)


def test_one_value_of_a_change_is_enough():
    found = best({"threads=2": 0.6, "threads=4": 0.5, "b": 0.9})
    assert found.final.changes == ("b", "threads=4")


def test_a_larger_batch_is_not_part_of_a_stack():
    found = best({"batch=8": 0.2, "b": 0.9}, items={"batch=8": 8.0})
    assert found.final.changes == ("b",)


def test_without_a_gain_there_is_no_stack():
    found = best({"a": 1.0, "b": 1.3})
    assert (found.final, found.steps) == (None, [])
    assert len(found.results) == 2


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.3, 1.5), min_size=1))
def test_for_independent_changes_the_stack_is_the_best_of_all_subsets(factors):
    factors = {name: factor for name, factor in factors.items() if factor < 0.97 or factor > 1.03}
    if not factors:
        return
    cost = product_of(factors)
    subsets = itertools.chain.from_iterable(itertools.combinations(factors, size) for size in range(len(factors) + 1))
    final = best(factors).final
    assert cost(final.changes if final else ()) == pytest.approx(min(map(cost, subsets)))
