"""Intercepting calls: each observer sees each call once, in any order of entering and leaving, without residue."""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from clocks import HANG_S
from torch import nn

from assay.recorder import inventory
from assay.recorder.calls import CallLog
from assay.recorder.intercept import observing
from assay.timing.module_clock import ModuleClock

PLAIN = nn.Module.__dict__["__call__"]


class Base(nn.Module):
    def forward(self, x):
        return x


class Derived(Base):
    pass


@pytest.fixture(autouse=True)
def _call_is_restored():
    yield
    remaining = nn.Module.__dict__["__call__"]
    nn.Module.__call__ = PLAIN
    assert remaining is PLAIN


def observer(seen, name):
    def wrap(original, replaced):
        def __call__(self, *args, **kwargs):
            if replaced:
                return replaced[0](self, *args, **kwargs)
            seen.append(name)
            return original(self, *args, **kwargs)

        return __call__

    return wrap


class Stage:
    """Observers that enter and leave, patches by the user, and the names of those that see a call."""

    def __init__(self):
        self.seen = []
        self.active = {}
        self.patches = []
        self.inner = {}
        self.user_saved = {}

    def enter(self, name):
        self.active[name] = observing(observer(self.seen, name))
        self.active[name].__enter__()

    def leave(self, name):
        self.active.pop(name).__exit__(None, None, None)

    def patch(self, name, calls_plain=False):
        saved = nn.Module.__call__
        inner = PLAIN if calls_plain else saved

        def patched(self_, *args, **kwargs):
            self.seen.append(name)
            return inner(self_, *args, **kwargs)

        self.inner[patched] = inner
        self.user_saved[name] = saved
        nn.Module.__call__ = patched
        self.patches.append(name)

    def unpatch(self, name):
        nn.Module.__call__ = self.user_saved[name]
        self.patches.remove(name)

    def overwritten(self):
        """Whether the user's own assignment has removed all replacements."""
        method = nn.Module.__dict__["__call__"]
        while method in self.inner:
            method = self.inner[method]
        return method is PLAIN

    def called(self):
        self.seen.clear()
        assert Base()(7) == 7
        return sorted(self.seen)


def orders(*sequences):
    """Every order of these events that keeps the order within each sequence."""
    events = [event for sequence in sequences for event in sequence]
    for order in itertools.permutations(events):
        if all(order.index(sequence[0]) <= order.index(sequence[-1]) for sequence in sequences):
            yield order


# --- only observers


def test_every_order_of_entering_and_leaving():
    for order in orders(*((("enter", name), ("leave", name)) for name in "abc")):
        stage = Stage()
        for verb, name in order:
            getattr(stage, verb)(name)
            assert stage.called() == sorted(stage.active), order
        assert nn.Module.__dict__["__call__"] is PLAIN


def test_the_newest_is_outermost_and_a_repeated_observer_sees_a_call_once():
    seen = []
    first, second = observer(seen, "first"), observer(seen, "second")
    with observing(first), observing(second):
        with observing(first):
            Base()(0)
        Base()(0)
    assert seen == ["second", "first"] * 2


def test_one_observer_is_called_directly():
    def wrap(original, replaced):
        assert original is PLAIN
        return lambda self, *args, **kwargs: original(self, *args, **kwargs)

    with observing(wrap):
        assert nn.Module.__call__.__wrapped__ is PLAIN
        assert nn.Module.__call__.__name__ == PLAIN.__name__


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_in_forward_restores_the_method(error):
    class Raises(nn.Module):
        def forward(self):
            raise error

    seen = []
    with pytest.raises(error), observing(observer(seen, "a")), observing(observer(seen, "b")):
        Raises()()
    assert seen == ["b", "a"]


def test_an_entry_that_is_garbage_collected_leaves():
    entry = observing(observer([], "a"))
    entry.__enter__()
    assert nn.Module.__dict__["__call__"] is not PLAIN
    del entry


def test_forward_is_replaced_in_the_class_that_defines_it():
    plain, seen = Base.__dict__["forward"], []
    with observing(observer(seen, "a"), Base, "forward"), observing(observer(seen, "b"), Base, "forward"):
        assert "forward" not in Derived.__dict__
        Derived()(0)
    assert seen == ["b", "a"]
    assert Base.__dict__["forward"] is plain
    assert "forward" not in Derived.__dict__


def test_a_class_that_was_observed_is_not_kept_alive():
    class Short(nn.Module):
        def forward(self):
            return None

    with observing(observer([], "a"), Short, "forward"):
        Short()()
    alive = weakref.ref(Short)
    del Short
    gc.collect()
    gc.collect()  # the first frees the target of the method, the second the class
    assert alive() is None


# --- the user's patches


@pytest.mark.parametrize("calls_plain", [False, True])
def test_every_order_of_observers_and_a_patch(calls_plain):
    for order in orders(("+a", "-a"), ("+b", "-b"), ("patch", "unpatch")):
        stage = Stage()
        for event in order:
            if event == "patch":
                stage.patch("user", calls_plain)
            elif event == "unpatch":
                stage.unpatch("user")
            else:
                (stage.enter if event[0] == "+" else stage.leave)(event[1])
                assert not stage.active or not stage.overwritten(), order
            expected = [] if stage.overwritten() else list(stage.active)
            assert stage.called() == sorted(expected + stage.patches), (order, event)
        with observing(observer(stage.seen, "later")):
            assert stage.called() == ["later"], order
        assert nn.Module.__dict__["__call__"] is PLAIN, order


def test_every_order_of_observers_and_a_patch_that_stays():
    for order in orders(("+a", "-a"), ("+b", "-b"), ("patch",)):
        stage = Stage()
        for event in order:
            if event == "patch":
                stage.patch("user")
                patched = nn.Module.__dict__["__call__"]
            else:
                (stage.enter if event[0] == "+" else stage.leave)(event[1])
            assert stage.called() == sorted([*stage.active, *stage.patches]), (order, event)
        assert nn.Module.__dict__["__call__"] is patched
        with observing(observer(stage.seen, "later")):
            assert stage.called() == ["later", "user"]
        assert nn.Module.__dict__["__call__"] is patched
        nn.Module.__call__ = PLAIN


def test_two_patches_removed_in_the_wrong_order():
    stage = Stage()
    stage.enter("a")
    stage.patch("under")
    stage.enter("b")
    stage.patch("over")
    assert stage.called() == ["a", "b", "over", "under"]
    stage.unpatch("under")
    assert stage.called() == ["a", "b"]
    stage.leave("a")
    assert stage.called() == ["b"]
    stage.unpatch("over")  # the method it replaced was above the other patch
    assert stage.called() == ["b", "under"]
    stage.leave("b")
    assert stage.called() == ["under"]
    nn.Module.__call__ = PLAIN


def test_a_patch_that_calls_another_module_before_the_original():
    seen, other = [], Derived()
    with observing(observer(seen, "a")):
        inner = nn.Module.__call__

        def patched(self, *args, **kwargs):
            if self is not other:
                other(*args)
            return inner(self, *args, **kwargs)

        nn.Module.__call__ = patched
        with observing(observer(seen, "b")):
            Base()(0)
    assert seen == ["b", "a"] * 2
    nn.Module.__call__ = PLAIN


def test_a_replacement_used_after_its_observer_left_has_no_effect():
    seen = []
    with observing(observer(seen, "a")):
        kept = nn.Module.__call__
    nn.Module.__call__ = lambda self, *args, **kwargs: kept(self, *args, **kwargs)
    assert Base()(1) == 1
    with observing(observer(seen, "b")):
        Base()(1)
    assert seen == ["b"]
    nn.Module.__call__ = kept
    with observing(observer(seen, "c")):
        Base()(1)
    assert seen == ["b", "c"]


def test_a_patch_made_with_wraps_is_not_mistaken_for_a_replacement():
    with observing(observer([], "a")):
        inner = nn.Module.__call__

        @functools.wraps(inner)
        def patched(self, *args, **kwargs):
            return inner(self, *args, **kwargs)

        nn.Module.__call__ = patched
    assert nn.Module.__dict__["__call__"] is patched
    nn.Module.__call__ = PLAIN


def test_compiling_with_a_patch_that_refers_to_a_replacement():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    x = torch.ones(1, 2)
    expected = model(x)
    with ModuleClock():
        inner = nn.Module.__call__
        nn.Module.__call__ = lambda self, *args, **kwargs: inner(self, *args, **kwargs)
        assert torch.equal(torch.compile(model, backend="eager")(x), expected)
    for _ in range(2):
        torch._dynamo.reset()
        assert torch.equal(torch.compile(model, backend="eager", fullgraph=True)(x), expected)
        nn.Module.__call__ = inner
    nn.Module.__call__ = PLAIN


# --- threads


@pytest.fixture
def _switching():
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def paths(log):
    return [log.modules[call.module].path for call in log.rows()]


@pytest.mark.usefixtures("_switching")
@pytest.mark.parametrize("patched", [False, True])
def test_threads_that_enter_and_leave_do_not_lose_calls_of_others(patched):
    model = nn.Sequential(*(Derived() for _ in range(20)))
    start, count = threading.Barrier(4), 100

    def recorded():
        log = CallLog(inventory.take_inventory(model))
        with log:
            log.watch_forward(model.modules())
            model(0)
            model[3].forward(0)
        return paths(log)

    expected = ["", *(str(index) for index in range(20)), "3"]
    assert recorded() == expected

    def again_and_again(_):
        start.wait(HANG_S)
        return [recorded() for _ in range(count)]

    if patched:
        nn.Module.__call__ = lambda self, *args, **kwargs: PLAIN(self, *args, **kwargs)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(again_and_again, range(4)))
    if patched:
        assert nn.Module.__dict__["__call__"] is not PLAIN
        nn.Module.__call__ = PLAIN
    assert results == [[expected] * count] * 4
    assert "forward" not in Derived.__dict__


@pytest.mark.usefixtures("_switching")
def test_threads_that_enter_and_leave_at_once_restore_everything():
    start = threading.Barrier(4)

    def again_and_again(name):
        start.wait(HANG_S)
        for _ in range(500):
            with observing(observer([], name)), observing(observer([], name), Base, "forward"):
                pass

    plain = Base.__dict__["forward"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(again_and_again, "abcd"))
    assert nn.Module.__dict__["__call__"] is PLAIN
    assert Base.__dict__["forward"] is plain


@pytest.mark.usefixtures("_switching")
def test_a_temporary_patch_does_not_lose_calls_of_a_recording():
    model, stop = nn.Sequential(*(Derived() for _ in range(20))), threading.Event()
    ticks = iter(range(10**9))
    clock = ModuleClock(ticks.__next__)

    def others():
        while not stop.is_set():
            with observing(observer([], "other")):
                pass

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(50):
            with clock:
                inner = nn.Module.__call__
                nn.Module.__call__ = lambda self, *args, inner=inner, **kwargs: inner(self, *args, **kwargs)
                model(0)
            events = clock.events({id(module): index for index, module in enumerate(model.modules())})
            begun = Counter(module for module in events.modules if module >= 0)
            assert begun == dict.fromkeys(range(21), 1)
            nn.Module.__call__ = PLAIN
    finally:
        stop.set()
        thread.join(HANG_S)
    nn.Module.__call__ = PLAIN


def test_the_clock_and_the_recorder_observe_only_their_own_thread():
    model = Base()
    log, clock = CallLog(inventory.take_inventory(model)), ModuleClock()

    def elsewhere():
        with observing(observer([], "rebuilds the wrappers from another thread")):
            model(0)

    with log, clock:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(HANG_S)
        model(0)
    assert paths(log) == [""]
    assert clock.events({id(model): 0}).modules == (0, -1)
