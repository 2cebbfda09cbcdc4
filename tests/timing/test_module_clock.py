"""The module clock, tested with modules that advance a fake clock by known amounts."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from assay.recorder import inventory
from assay.timing.module_clock import ModuleClock
from assay.timing.segments import Estimates, SegmentedPasses


class Time:
    """A clock that only advances when moved."""

    def __init__(self):
        self.ns = 0

    def __call__(self):
        return self.ns


class Worker(nn.Module):
    """Takes `before` and `after`, calling its children (each `repeats` times) in between."""

    def __init__(self, time, before, after, children=(), repeats=1):
        super().__init__()
        self.time, self.before, self.after, self.repeats = time, before, after, repeats
        self.parts = nn.ModuleList(children)

    def forward(self, x):
        self.time.ns += self.before
        for _ in range(self.repeats):
            for part in self.parts:
                x = part(x)
        self.time.ns += self.after
        return x


def times_of(model, time, value=None):
    """Calls, total and self nanoseconds of each module, and those outside, from one clocked pass."""
    clock = ModuleClock(time)
    begin = time.ns
    with clock:
        model(torch.zeros(1) if value is None else value)
    events = clock.events(inventory.take_inventory(model).module_index)
    durations = np.diff([begin, *events.times_ns, time.ns]).astype(float)[np.newaxis]
    chains = events.chains()
    none = np.zeros((0, 0))
    estimates = Estimates(SegmentedPasses(durations, chains, none, np.zeros(0, np.intp), []))
    modules = Counter(module for module in events.modules if module is not None and module >= 0)
    times = {m: (count, estimates.total(m).ns, estimates.own(m).ns) for m, count in modules.items()}
    return times, estimates


def expected(model):
    """Self and total times, computed by walking the tree in the order of forward."""
    found = {}

    def run(module):
        calls, own, total = found.get(id(module), (0, 0, 0))
        mine = module.before + module.after
        inside = mine + sum(run(part) for _ in range(module.repeats) for part in module.parts)
        calls, own, total = found.get(id(module), (0, 0, 0))
        found[id(module)] = (calls + 1, own + mine, total + inside)
        return inside

    run(model)
    return found


TREES = st.recursive(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.just(()), st.integers(1, 2)),
    lambda inner: st.tuples(
        st.integers(0, 50), st.integers(0, 50), st.lists(inner, max_size=3).map(tuple), st.integers(0, 2)
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(TREES)
def test_self_and_total_times_of_any_tree(tree):
    time = Time()

    def made(spec):
        before, after, children, repeats = spec
        return Worker(time, before, after, [made(child) for child in children], repeats)

    model = made(tree)
    expected_times = expected(model)
    times, estimates = times_of(model, time)
    index = inventory.take_inventory(model).module_index
    places = {index[key]: value for key, value in expected_times.items()}
    assert times == {place: (calls, total, own) for place, (calls, own, total) in places.items()}
    assert sum(own for _, _, own in times.values()) == time.ns == estimates.whole().ns
    assert estimates.outside().ns == 0


def test_a_module_that_calls_itself_counts_its_time_once():
    time = Time()

    class Again(nn.Module):
        def forward(self, depth):
            time.ns += 10
            return self(depth - 1) if depth else depth

    times, _ = times_of(Again(), time, 3)
    assert times[0] == (4, 40, 40)


def test_a_module_created_in_forward_counts_as_time_of_its_caller():
    time = Time()

    class Maker(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Worker(time, 3, 0)

        def forward(self, x):
            made = Worker(time, 5, 0)
            made.parts.append(self.inner)
            time.ns += 2
            return made(x)

    times, estimates = times_of(Maker(), time)
    assert {place: own for place, (_, _, own) in times.items()} == {0: 7, 1: 3}
    assert estimates.whole().ns == 10


def test_the_class_is_restored_after_an_error_and_the_model_is_unchanged():
    original = nn.Module.__dict__["__call__"]

    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    model = nn.Sequential(Broken())
    before = dict(vars(model))
    clock = ModuleClock(Time())
    with pytest.raises(ValueError, match="broken"), clock:
        model(torch.zeros(1))
    assert nn.Module.__dict__["__call__"] is original
    assert vars(model) == before
    assert clock.events(inventory.take_inventory(model).module_index).modules == (0, 1, -1, -1)


def test_calls_on_other_threads_are_not_timed():
    model = nn.Linear(2, 2)
    clock = ModuleClock(Time())
    with clock:
        thread = threading.Thread(target=lambda: model(torch.zeros(1, 2)))
        thread.start()
        thread.join()
    assert clock.events(inventory.take_inventory(model).module_index).modules == ()
