"""Trying changes through the function that the commands call."""

from __future__ import annotations

import pytest
import torch
from trial_changes import Costly
from trial_fixtures import known_changes  # noqa: F401

from assay.api.attempt import AttemptOptions, attempt, chosen_changes
from assay.api.options import RunOptions
from assay.document.findings import Finding
from assay.document.trials import FASTER, LOSSY, UNTRIED
from assay.errors import ReadError, UsageError

pytestmark = pytest.mark.usefixtures("known_changes")
MODEL = "trial_changes:load"
FINDING = Finding("S203", "advice", "title", "Do it.")


def test_names_stand_for_changes_and_codes_for_all_that_follow_them():
    assert chosen_changes(["t_half", "S203", "t_half", "t_divide=8"]) == ["t_half", "t_divide", "t_own", "t_divide=8"]
    assert chosen_changes(["s203"]) == ["t_divide", "t_own"]
    assert chosen_changes(None, [FINDING]) == ["t_divide", "t_own"]
    assert chosen_changes(None, []) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("t_hafl", "unknown change 't_hafl'"),
        ("W101", "no change follows the advice of W101 automatically: choose from C401, S203"),
        ("t_half=2", "t_half takes no value"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused_before_any_work(name, message):
    with pytest.raises(UsageError, match=message):
        attempt("absent.py::load", None, RunOptions(), AttemptOptions(("t_half", name)))


def test_a_model_that_does_not_exist_or_run_is_refused():
    with pytest.raises(ReadError, match="no such file"):
        attempt("absent.py::load", None, RunOptions(), AttemptOptions(("t_half",)))
    with pytest.raises(UsageError, match="passes with data"):
        attempt(MODEL, "1x4", RunOptions(mode="meta"), AttemptOptions(("t_half",)))
    with pytest.raises(UsageError, match="seconds must be"):
        attempt(MODEL, "1x4", RunOptions(), AttemptOptions(("t_half",), seconds=-1))


@pytest.mark.parametrize("source", [MODEL, Costly], ids=["text", "live"])
def test_the_advice_of_findings_is_tried(source):
    model = source if source is MODEL else source()
    results = attempt(model, "1x4", RunOptions(), AttemptOptions(), findings=[FINDING])
    assert [each.changes for each in results] == [("t_divide=2",), ("t_divide=4",), ("t_own",)]
    assert {each.verdict for each in results} == {FASTER}


def test_the_model_runs_in_the_mode_and_dtype_asked_for():
    (result,) = attempt(MODEL, "1x4", RunOptions(dtype="bf16", backward=True), AttemptOptions(("t_half",)))
    assert (result.verdict, result.training) == (FASTER, True)


def test_the_best_stack_is_found_in_child_processes(monkeypatch):
    names = ("t_half", "t_most", "t_alone", "t_worse", "t_decline", "t_fail", "t_lossy", "t_wrong")
    _only(monkeypatch, names)
    found = attempt(MODEL, torch.ones(1, 4), RunOptions(), AttemptOptions(("best",)))
    assert {each.name for each in found if len(each.changes) == 1 and not each.against} == set(names)
    final = found[-1]
    assert set(final.changes) == {"t_half", "t_lossy", "t_most"}
    assert final.effect == LOSSY
    assert final.speedup.value == pytest.approx(1 / (0.25 * 0.5 * 0.8))
    assert len([each for each in found if each.against]) == 3


def test_exact_leaves_out_what_loses_precision(monkeypatch):
    _only(monkeypatch, ("t_half", "t_lossy"))
    found = attempt(MODEL, "1x4", RunOptions(), AttemptOptions(("best",), exact=True))
    assert {each.changes for each in found} == {("t_half",)}


def test_a_search_can_be_limited_to_some_changes():
    found = attempt(MODEL, "1x4", RunOptions(), AttemptOptions(("best", "t_half", "t_most")))
    assert {name for each in found for name in each.changes} == {"t_half", "t_most"}
    assert set(found[-1].changes) == {"t_half", "t_most"}


def test_a_stack_can_be_named():
    (found,) = attempt(MODEL, "1x4", RunOptions(), AttemptOptions(("t_half+t_most",)))
    assert set(found.changes) == {"t_half", "t_most"}
    assert found.verdict == FASTER


def test_a_spent_budget_ends_the_search(monkeypatch):
    _only(monkeypatch, ("t_half", "t_lossy"))
    found = attempt(MODEL, "1x4", RunOptions(), AttemptOptions(("best",), budget_s=0))
    assert [each.verdict for each in found] == [UNTRIED, UNTRIED]


def _only(monkeypatch, names):
    import assay.trials.change as registry

    monkeypatch.setattr(registry, "_CHANGES", {name: registry._CHANGES[name] for name in names})
