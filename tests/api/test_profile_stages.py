"""The time budget of a profile: it is divided among stages, respected, and what is skipped is named."""

from __future__ import annotations

from functools import partial
from itertools import count

import pytest
import torch
from clocks import ManualClock
from torch import nn

import assay
from assay.api.options import Progress, RunOptions
from assay.api.profile.options import ProfileOptions
from assay.api.profile.profiled import prepare
from assay.api.profile.run import profile_prepared
from assay.api.profile.stages import Stages
from assay.sources.open import open_source


class Seconds(ManualClock):
    def __call__(self):
        return self.ns / 1e9


@pytest.fixture
def clock():
    return Seconds()


def test_every_stage_gets_an_equal_share_of_what_is_left(clock):
    seen = []
    stages = Stages(4, 60.0, seen.append, clock)
    assert stages.begin("one")
    assert stages.share_s(100) == pytest.approx(15)
    assert stages.share_s(10) == pytest.approx(10)
    clock.ns = int(30e9)
    assert stages.begin("two")
    assert stages.share_s(100) == pytest.approx(10)
    assert [(each.stage, each.number, each.stages, each.left_s) for each in seen] == [
        ("one", 1, 4, 60.0),
        ("two", 2, 4, 30.0),
    ]


def test_stages_without_time_left_are_skipped_and_named(clock):
    stages = Stages(3, 5.0, lambda _: None, clock)
    clock.ns = int(6e9)
    assert not stages.begin("late")
    assert stages.skipped == ["late"]


def test_without_a_budget_nothing_is_skipped(clock):
    stages = Stages(1, None, lambda _: None, clock)
    clock.ns = int(1e15)
    assert stages.begin("late")
    assert stages.begin("more than announced")
    assert stages.left_s is None
    assert stages.share_s(7) == 7


def test_given_passes_ignore_the_time(clock):
    stages = Stages(1, 60.0, lambda _: None, clock)
    stages.begin("only")
    assert stages.budget(1, 5, 10.0)[:4] == (1, 5, 5, 0.0)
    assert stages.budget(1, None, 10.0).seconds == 10.0


def test_a_profile_that_runs_out_of_time_names_what_it_skipped(monkeypatch):
    begun = count(step=10)  # every look at the clock takes ten seconds
    monkeypatch.setattr("assay.api.profile.run.Stages", partial(Stages, clock=lambda: next(begun)))
    steps = []
    document = assay.profile(nn.Linear(2, 2), torch.zeros(1, 2), passes=1, budget=35,
                             sweeps=[("batch", [1, 2])], thread_counts=(1,), on_step=steps.append)  # fmt: skip
    assert document.timing is not None
    (note,) = document.profile.notes
    assert note == "not measured, because the budget of 35 s was spent: 1 thread, batch 1, batch 2, largest batch"
    assert steps == ["recording a pass", "measuring memory", "timing modules and ops"]


def test_no_budget_means_no_limit():
    document = assay.profile(nn.Linear(2, 2), torch.zeros(1, 2), passes=1, budget=None)
    assert document.profile.notes == []


def test_a_slow_pass_stops_at_twice_its_time_and_warms_up_once():
    from assay.timing.bench import Budget, repeat_until

    runs = []

    def measure():
        runs.append(1)
        return int(3e9)

    repeat_until(Budget(2, 3, 100, 1.0), measure, lambda: False)
    assert len(runs) == 1
    runs.clear()
    repeat_until(Budget(2, 3, 100, 2.0), measure, lambda: False)
    assert len(runs) == 2
    runs.clear()
    repeat_until(Budget(2, 3, 3, 0.0), measure, lambda: False)
    assert len(runs) == 3


def test_a_required_stage_is_announced_even_without_time(clock):
    seen = []
    stages = Stages(2, 5.0, seen.append, clock)
    clock.ns = int(6e9)
    assert stages.begin("needed", required=True)
    assert not stages.begin("too long", least_s=1.0)
    assert (stages.skipped, len(seen)) == (["too long"], 1)


def test_every_repeat_is_reported_with_its_stage(clock):
    """A stage of many passes is never silent for longer than one of them, whatever the machine does."""
    from assay.timing.bench import repeat_until

    seen = []
    stages = Stages(1, 60.0, seen.append, clock)
    stages.begin("timing")
    repeat_until(stages.budget(0, 4, 10.0), lambda: 1, lambda: False)
    assert [(each.stage, each.items, each.unit) for each in seen[1:]] == [
        ("timing", n, "repeat") for n in (1, 2, 3, 4)
    ]
    stages.report("a part of it")
    assert seen[-1].stage == "a part of it"


def test_the_stages_of_a_profile_report_their_passes():
    seen: list[Progress] = []
    profiled = prepare(open_source(nn.Linear(2, 2)), torch.zeros(1, 2), RunOptions("real"), on_progress=seen.append)
    profile_prepared(profiled, ProfileOptions(warmup=1, passes=3, budget=None), seen.append)
    repeats = {each.stage: each.items for each in seen}
    assert repeats["timing modules and ops"] == 1 + 3
