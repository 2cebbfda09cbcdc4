"""Public functions that overlap or are nested: each gives the same result as on its own, and restores torch."""

from __future__ import annotations

import contextlib
import functools
import itertools
import queue
import sys
import threading

import msgspec
import pytest
import torch
from clocks import HANG_S
from torch import nn
from versions import require

import assay

X = torch.ones(2, 3)
PLAIN = nn.Module.__dict__["__call__"]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, width), nn.Linear(width, 3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Net(nn.Module):
    """A model that may call a function in the middle of its first pass, for example to wait.

    The function is in a queue, because other state is restored after each pass.
    """

    def __init__(self, width, meanwhile=None):
        super().__init__()
        self.first = Block(width)
        self.last = nn.Linear(3, 1)
        self.meanwhile = queue.Queue()
        if meanwhile is not None:
            self.meanwhile.put(meanwhile)

    def forward(self, x):
        x = self.first.forward(x)
        if not self.meanwhile.empty():
            self.meanwhile.get()()
        return self.last(torch.relu(x))


def observe(model, _):
    document = msgspec.to_builtins(assay.observe(model, X))
    document["run"].pop("timestamp")
    return document


def profile(model, _):
    document = assay.profile(model, X, passes=1, warmup=0)
    return (
        [module.path for module in document.modules],
        [(call.module, call.inputs, call.outputs) for call in document.calls],
        [timed and timed.calls for timed in document.timing.modules],
    )


def capture(model, directory):
    with assay.capture(model, directory) as captured:
        model(X)
    return [(layer.path, layer.class_name, layer.calls, layer.shapes) for layer in captured.layers]


def stats(model, _):
    with assay.record_forward_stats(model):
        model(X)
    return [
        (path, [(call.module_path, call.calls_inside, [out.shape for out in call.outputs]) for call in found])
        for path, module in model.named_modules()
        if (found := module.__dict__.get("forward_stats"))
    ]


VERBS = {"observe": observe, "profile": profile, "capture": capture, "stats": stats}
WIDTHS = {name: width for width, name in enumerate(VERBS, 4)}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The result of each verb when nothing else runs."""
    directory = tmp_path_factory.mktemp("alone")
    return {name: verb(Net(WIDTHS[name]), directory) for name, verb in VERBS.items()}


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """Check that everything that is replaced in torch and Python is restored."""

    def state():
        return [
            nn.Module.__dict__["__call__"],
            *(cls.__dict__["forward"] for cls in (Net, Block, nn.Linear)),
            torch.compile,
            torch.tensor,
            torch.as_tensor,
            sys.getrecursionlimit(),
        ]

    before = state()
    assert before[0] is PLAIN
    yield
    assert state() == before


class Worker(threading.Thread):
    """A thread that runs a verb and waits in the middle of its first pass."""

    def __init__(self, name, directory):
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.model, self.verb, self.directory = Net(WIDTHS[name], self.pause), VERBS[name], directory
        self.result = None

    def run(self):
        self.result = self.verb(self.model, self.directory)

    def pause(self):
        self.begun.set()
        assert self.go_on.wait(HANG_S)

    def begin(self):
        self.start()
        assert self.begun.wait(HANG_S)

    def end(self):
        self.go_on.set()
        self.join(HANG_S)
        assert not self.is_alive()


@pytest.mark.parametrize("order", itertools.permutations(VERBS), ids="-".join)
def test_all_verbs_at_the_same_time_in_threads(order, alone, tmp_path):
    """Started in this order and ended in the order of `VERBS`; together, the cases cover every relative order."""
    workers = {name: Worker(name, tmp_path) for name in order}
    for worker in workers.values():
        worker.begin()
    for name in VERBS:
        workers[name].end()
    assert {name: worker.result for name, worker in workers.items()} == alone


@pytest.mark.parametrize("name", VERBS)
def test_the_same_verb_twice_in_threads(name, alone, tmp_path):
    first, second = Worker(name, tmp_path), Worker(name, tmp_path)
    first.begin()
    second.begin()
    first.end()
    second.end()
    assert first.result == alone[name]
    if name == "capture":  # a process can have only one profiler
        assert second.result == []
    else:
        assert second.result == alone[name]
    assert VERBS[name](Net(WIDTHS[name]), tmp_path) == alone[name]


def test_captures_work_after_a_capture_in_which_a_recording_ended(alone, tmp_path):
    recording = Worker("observe", tmp_path)
    recording.begin()
    with assay.capture(nn.Identity(), tmp_path):
        recording.end()
    for _ in range(2):
        assert capture(Net(WIDTHS["capture"]), tmp_path) == alone["capture"]


@pytest.mark.parametrize(("outer", "inner"), itertools.product(VERBS, VERBS))
def test_one_verb_inside_another(outer, inner, alone, tmp_path):
    found = []

    def meanwhile():
        found.append(VERBS[inner](Net(WIDTHS[inner]), tmp_path / "inner"))

    VERBS[outer](Net(WIDTHS[outer], meanwhile), tmp_path / "outer")
    assert found == [[] if outer == inner == "capture" else alone[inner]]


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_the_middle_leaves_no_patches_behind(name, error, alone, tmp_path):
    def fails():
        raise error("in the middle")

    with contextlib.suppress(error, AttributeError):  # the profile of a failed pass has no times
        VERBS[name](Net(WIDTHS[name], fails), tmp_path)
    assert VERBS[name](Net(WIDTHS[name]), tmp_path) == alone[name]


# --- patches made by the user


def patched(count):
    inner = nn.Module.__call__

    @functools.wraps(inner)
    def __call__(self, *args, **kwargs):
        count.append(type(self).__name__)
        return inner(self, *args, **kwargs)

    return __call__


@pytest.fixture
def _plain_again():
    yield
    nn.Module.__call__ = PLAIN


@pytest.mark.usefixtures("_plain_again")
@pytest.mark.parametrize("name", VERBS)
def test_an_earlier_patch_is_called_and_kept(name, alone, tmp_path):
    count = []
    nn.Module.__call__ = before = patched(count)
    assert VERBS[name](Net(WIDTHS[name]), tmp_path) == alone[name]
    assert count[:4] == ["Net", "Linear", "Linear", "Linear"]
    assert nn.Module.__dict__["__call__"] is before


@pytest.mark.usefixtures("_plain_again")
@pytest.mark.parametrize(("first", "later"), itertools.product(VERBS, VERBS))
def test_a_patch_made_during_a_pass_is_kept_and_can_be_removed_later(first, later, alone, tmp_path):
    count, saved = [], []

    def patch():
        saved.append(nn.Module.__call__)
        nn.Module.__call__ = patched(count)
        saved.append(nn.Module.__call__)

    assert VERBS[first](Net(WIDTHS[first], patch), tmp_path) == alone[first]
    assert nn.Module.__dict__["__call__"] is saved[1]
    count.clear()
    assert VERBS[later](Net(WIDTHS[later]), tmp_path) == alone[later]
    assert count[:4] == ["Net", "Linear", "Linear", "Linear"]
    assert nn.Module.__dict__["__call__"] is saved[1]
    nn.Module.__call__ = saved[0]
    assert VERBS[later](Net(WIDTHS[later]), tmp_path) == alone[later]
    assert nn.Module.__dict__["__call__"] is PLAIN


# --- state of the process


def test_overlapping_threads_restore_the_random_state_and_the_compiler(tmp_path):
    import torch._dynamo.eval_frame as compiler

    require("torch", "2.6", "torch.compiler.set_stance")
    first, second = Worker("observe", tmp_path), Worker("observe", tmp_path)
    before, stance = torch.get_rng_state(), compiler._stance.stance
    first.begin()
    torch.rand(1)  # so that the second starts with another random state
    second.begin()
    first.end()
    second.end()
    assert torch.equal(torch.get_rng_state(), before)
    assert compiler._stance.stance == stance


class Waiting(nn.Module):
    """Signals that its forward pass has begun, then waits for permission to continue."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.begun, self.let_on = threading.Event(), threading.Event()

    def __deepcopy__(self, memo):
        return self

    def forward(self, x):
        self.begun.set()
        assert self.let_on.wait(HANG_S)
        return self.layer(x)


def test_two_passes_of_one_model_leave_it_as_it_was():
    model, x = Waiting().train(), torch.randn(2, 4)
    threads = [threading.Thread(target=assay.observe, args=(model, x)) for _ in range(2)]
    threads[0].start()
    assert model.begun.wait(HANG_S)
    threads[1].start()  # it has to wait, because the model is temporarily in evaluation mode
    model.let_on.set()
    for thread in threads:
        thread.join(HANG_S)
    assert all(module.training for module in model.modules())


def test_calls_recorded_while_another_thread_observes_are_kept():
    model, x = Waiting(), torch.randn(2, 4)
    thread = threading.Thread(target=assay.observe, args=(model, x))
    thread.start()
    assert model.begun.wait(HANG_S)
    with assay.record_forward_stats(model.layer):
        model.layer(x)
        model.let_on.set()
        thread.join(HANG_S)
    assert len(model.layer.forward_stats) == 2  # this call, and the call in the observed pass
