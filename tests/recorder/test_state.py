"""A pass restores the state that a model keeps in Python objects, and refuses what it cannot restore."""

from __future__ import annotations

import array
import copy
import functools
import gc
import io
import itertools
import random
import sys
import threading
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch
from clocks import HANG_S
from torch import nn

import assay
from assay.errors import UsageError
from assay.recorder import passes

MODES = ("real", "meta", "fake")


class Stateful(nn.Module):
    """A model whose output is its input plus the number of earlier calls, kept in `self.state` by `step`."""

    def __init__(self, state, step):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.state = state
        self.step = step

    def forward(self, x):
        return self.layer(x) + self.step(self.state, x)


class Cache:
    """What a KV cache does: tensors and counters that every call changes."""

    def __init__(self):
        self.length = 0
        self.keys = torch.zeros(8, 2)
        self.past = []
        self.last = None

    def update(self, x):
        self.keys[self.length] = x[0]
        self.length += 1
        self.past.append(x)
        self.last = x * 2
        return self.keys.sum() + self.length + sum(each.sum() for each in self.past)


class Slotted:
    __slots__ = ("count", "unset")

    def __init__(self):
        self.count = 0

    def __call__(self, x):
        self.count += 1
        self.unset = x
        return self.count


@dataclass
class Record:
    calls: int = 0
    history: deque = field(default_factory=deque)


@dataclass(frozen=True)
class Frozen:
    inner: Record = field(default_factory=Record)


class Counted:
    calls = 0
    seen: ClassVar[dict] = {}

    @classmethod
    def count(cls, x):
        cls.calls += 1
        cls.seen[cls.calls] = x
        Counted.latest = x
        return len(cls.seen)


class OwnDict(dict):
    """A dictionary whose own methods must not be called by the guard."""

    def copy(self):
        raise AssertionError("the guard ran the model's code")

    clear = update = __iter__ = copy


class Tally(dict):
    """A dictionary with a counter beside its items."""

    calls = 0


class Log(list):
    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0


CALLS = 0
TABLE: dict = {}
STATE_MODULE = types.ModuleType("state_module")
STATE_MODULE.calls = 0
sys.modules["state_module"] = STATE_MODULE


def count_in_a_module(state, x):
    STATE_MODULE.calls += 1
    return STATE_MODULE.calls


def count(state, x):
    state.calls += 1
    return state.calls


def write_line(state, x):
    state.write(b"x" if isinstance(state, io.BytesIO) else "x")
    return len(state.getvalue()) + state.tell()


def count_globally(state, x):
    global CALLS
    CALLS += 1
    TABLE[CALLS] = x
    return CALLS + len(TABLE)


@functools.lru_cache(4)
def cached_ones(size, device):
    return torch.ones(size, device=device)


def record(state, x):
    state.calls += 1
    state.history.append(x)
    return state.calls + len(state.history)


def remember(state, x):
    state[len(dict.keys(state))] = x
    return len(dict.keys(state))


def closure():
    calls, history = 0, []

    def step(state, x):
        nonlocal calls
        calls += 1
        history.append(x)
        return calls + len(history)

    return step


def attribute(state, x):
    attribute.calls = getattr(attribute, "calls", 0) + 1
    return attribute.calls


def default(state, x, history=[]):  # noqa: B006
    history.append(x)
    return len(history)


def move(state, x):
    state.move_to_end(next(iter(state)))
    return next(iter(state))


def add_one(state, x):
    state += 1
    return int(state.sum())


@functools.lru_cache
def cached_state():
    return []


@functools.cache
def endless():
    return []


class Meta(type):
    total = 0


class Measured(metaclass=Meta):
    @staticmethod
    def factor():
        return 1


def count_instances(state, x):
    type(state).total += 1
    return type(state).total


def replace_a_method(state, x):
    result = state.factor()
    state.factor = staticmethod(lambda: result + 1)
    return result


def remember_behind(state, x):
    (table,) = gc.get_referents(state)
    table[len(table)] = x
    return len(table)


def count_imported(state, x):
    import state_module

    state_module.calls += 1
    return state_module.calls


def count_method():
    holder = Cache()
    return lambda state, x: holder.update(x)


CASES = {
    "object": lambda: (Cache(), Cache.update),
    "slots": lambda: (Slotted(), lambda state, x: state(x)),
    "dataclass": lambda: (Record(), record),
    "frozen dataclass": lambda: (Frozen(), lambda state, x: record(state.inner, x)),
    "namespace": lambda: (types.SimpleNamespace(calls=0, history=[]), record),
    "dict": lambda: ({}, remember),
    "own dict": lambda: (OwnDict(), remember),
    "dict in a list in a tuple": lambda: (([{}],), lambda state, x: remember(state[0][0], x)),
    "defaultdict": lambda: (defaultdict(list), lambda state, x: (state["a"].append(x), len(state["a"]))[1]),
    "counter": lambda: (Counter(), lambda state, x: (state.update("a"), state["a"])[1]),
    "ordered dict": lambda: (OrderedDict([(1, 0), (2, 0)]), move),
    "set": lambda: (set(), lambda state, x: (state.add(len(state)), len(state))[1]),
    "deque": lambda: (deque([1, 2], maxlen=2), lambda state, x: (state.append(5), sum(state))[1]),
    "bytearray": lambda: (bytearray(2), lambda state, x: (state.append(7), len(state))[1]),
    "array": lambda: (np.zeros(3), add_one),
    "array of objects": lambda: (np.array([[Record()]]), lambda state, x: record(state[0, 0], x)),
    "python array": lambda: (array.array("i", [1]), lambda state, x: (state.append(7), len(state))[1]),
    "bytes in memory": lambda: (io.BytesIO(b"ab"), write_line),
    "text in memory": lambda: (io.StringIO("ab"), write_line),
    "attribute of a dict": lambda: (Tally(), count),
    "slot of a list": lambda: (Log(), count),
    "object as a key": lambda: ({Slotted(): None}, lambda state, x: next(iter(state))(x)),
    "variable of a python module": lambda: (None, count_in_a_module),
    "closure": lambda: (None, closure()),
    "closure over an object": lambda: (None, count_method()),
    "partial": lambda: (None, functools.partial(lambda history, state, x: (history.append(x), len(history))[1], [])),
    "bound method": lambda: (None, functools.partial(lambda update, state, x: update(x), Cache().update)),
    "function attribute": lambda: (None, attribute),
    "mutable default": lambda: (None, default),
    "class attributes": lambda: (Counted, lambda state, x: state.count(x)),
    "global variables": lambda: (None, count_globally),
    "cached tensors": lambda: (None, lambda state, x: cached_ones(2, x.device)),
    "cached state": lambda: (None, lambda state, x: (cached_state().append(x), len(cached_state()))[1]),
    "cached state without a limit": lambda: (None, lambda state, x: (endless().append(x), len(endless()))[1]),
    "tensor": lambda: (torch.zeros(2), lambda state, x: state.add_(1)),
    "metaclass": lambda: (Measured, count_instances),
    "method of a class": lambda: (Measured, replace_a_method),
    "read-only view": lambda: (types.MappingProxyType({}), remember_behind),
    "import inside a function": lambda: (None, count_imported),
    "counting iterator": lambda: (itertools.count(), lambda state, x: next(state)),
    "list iterator": lambda: ([iter([5, 6, 7])], lambda state, x: next(state[0])),
    "torch generator": lambda: (torch.Generator(), lambda state, x: torch.rand(2, generator=state)),
    "python generator": lambda: (random.Random(1), lambda state, x: state.random()),
    "numpy generator": lambda: (np.random.default_rng(1), lambda state, x: float(state.random())),
    "numpy random state": lambda: (np.random.RandomState(1), lambda state, x: float(state.rand())),
    "module in a list": lambda: ([nn.BatchNorm1d(2)], lambda state, x: state[0](x)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_the_next_call_gives_the_answer_it_would_have_given(name, mode):
    model = Stateful(*CASES[name]())
    x = torch.ones(2, 2)
    with torch.no_grad():
        model(x)  # so that there is state to keep
        expected = _twin_answer(name, x, model.layer)
        result = passes.observe(model, (x,), {}, mode=mode)
        assert mode != "real" or result.failure is None
        assert torch.equal(model(x), expected)


def _twin_answer(name, x, layer):
    """The answer to the second call, computed on state that no pass has touched."""
    _forget()
    twin = Stateful(*CASES[name]())
    twin.layer = layer
    twin(x)
    answer = twin(x)
    _forget()
    twin(x)  # shared state (globals, class attributes, defaults) is as the first call leaves it
    return answer


def _forget():
    global CALLS
    CALLS = 0
    TABLE.clear()
    STATE_MODULE.calls = 0
    Meta.total = 0
    Measured.factor = staticmethod(lambda: 1)
    cached_state.cache_clear()
    endless.cache_clear()
    Counted.calls = 0
    Counted.seen.clear()
    default.__defaults__[0].clear()
    attribute.__dict__.clear()
    cached_ones.cache_clear()


def test_an_optimizer_inside_a_module_gains_no_state():
    class Learner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.optimizer = torch.optim.Adam(self.layer.parameters())

        def forward(self, x):
            with torch.enable_grad():
                self.layer.weight.grad = torch.ones(2, 2)
                self.optimizer.step()
            return self.layer(x)

    model = Learner()
    before = copy.deepcopy(model.state_dict())
    result = passes.observe(model, (torch.ones(1, 2),), {})
    assert result.failure is None
    assert not model.optimizer.state
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.layer.weight.grad is None


def test_state_is_restored_after_an_error():
    class Failing(Stateful):
        def forward(self, x):
            super().forward(x)
            raise ValueError("no")

    model = Failing(Cache(), Cache.update)
    passes.observe(model, (torch.ones(1, 2),), {}, mode="meta")
    assert (model.state.length, model.state.past, model.state.last) == (0, [], None)
    assert not model.state.keys.any()


def test_a_scripted_counter_is_restored():
    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 3
            self.history = [1]

        def forward(self, x):
            self.count += 1
            self.history.append(2)
            return x + self.count

    scripted = torch.jit.script(Scripted())
    passes.observe(scripted, (torch.ones(1),), {})
    assert (scripted.count, list(scripted.history)) == (3, [1])


def test_what_cannot_be_restored_is_refused_before_it_runs():
    ran = []

    def numbers():
        ran.append(True)
        yield 1

    model = Stateful(Cache(), lambda state, x: next(state.stream))
    model.state.stream = numbers()
    with pytest.raises(UsageError, match="'stream' is a generator, whose position cannot be restored"):
        passes.observe(model, (torch.ones(1, 2),), {})
    assert not ran
    assert next(model.state.stream) == 1


def test_an_iterator_that_no_code_of_the_model_names_is_no_obstacle():
    """As with a module that refers to its trainer, which is in the middle of a loop."""
    model = Stateful(Cache(), Cache.update)
    model.state.trainer = types.SimpleNamespace(batches=(number for number in range(3)))
    assert passes.observe(model, (torch.ones(1, 2),), {}).failure is None
    assert next(model.state.trainer.batches) == 0


def test_an_iterator_that_only_the_constructor_names_is_no_obstacle():
    class Prepared(nn.Module):
        def __init__(self):
            super().__init__()
            self.pairs = zip([1], [2], strict=True)

        def forward(self, x):
            return x + 1

    assert passes.observe(Prepared(), (torch.ones(1),), {}).failure is None


def test_an_iterator_named_in_a_text_is_refused():
    model = Stateful(Cache(), lambda state, x: next(getattr(state, "stream")))  # noqa: B009
    model.state.stream = (number for number in range(3))
    with pytest.raises(UsageError, match="'stream' is a generator"):
        passes.observe(model, (torch.ones(1, 2),), {})


def test_code_of_the_model_is_not_run_while_saving():
    class Guarded:
        def __getattribute__(self, name):
            if name == "__class__":  # for isinstance() in nn.Module.__setattr__
                return object.__getattribute__(self, name)
            raise AssertionError(name)

    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.guarded = Guarded()

        def __getattr__(self, name):
            raise AssertionError(name)

        def forward(self, x):
            return x + 1

    assert passes.observe(Careful(), (torch.ones(1),), {}).failure is None


def test_overlapping_passes_restore_the_state_they_share():
    """The first pass ends while the second, which shares its state, is still running."""
    shared = {"calls": 0}
    second_started, first_ended = threading.Event(), threading.Event()

    class Sharing(nn.Module):
        def __init__(self, first):
            super().__init__()
            self.first = first
            self.shared = shared

        def forward(self, x):
            self.shared["calls"] += 1
            if self.first:
                assert second_started.wait(HANG_S)
            else:
                second_started.set()
                assert first_ended.wait(HANG_S)
                self.shared["calls"] += 1
            return x + 1

    def run(first):
        passes.observe(Sharing(first), (torch.ones(1),), {})
        if first:
            first_ended.set()

    threads = [threading.Thread(target=run, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert shared == {"calls": 0}


class Shared(nn.Module):
    """A model whose copies share state with it: class attributes, globals and closures."""

    calls = 0

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.history = history = []
        self.remember = lambda x: history.append(x)

    def forward(self, x):
        type(self).calls += 1
        TABLE[len(TABLE)] = x
        self.remember(x)
        return self.convolution(x)


@pytest.mark.parametrize("verb", [assay.observe, assay.cost, lambda model: assay.vary(model, over=("batch",))])
def test_trying_inputs_on_a_copy_leaves_what_it_shares_with_the_model(verb):
    _forget()
    model = Shared()
    verb(model)  # inputs are inferred
    assert (Shared.calls, TABLE, model.history) == (0, {}, [])


@pytest.mark.parametrize("mode", MODES)
def test_a_view_of_a_parameter_in_an_attribute_is_restored(mode):
    class Doubling(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.row = self.layer.weight.data[1:]

        def forward(self, x):
            self.row.mul_(2)
            return self.layer(x)

    model = Doubling()
    before = model.layer.weight.clone()
    passes.observe(model, (torch.ones(1, 2),), {}, mode=mode)
    assert torch.equal(model.layer.weight, before)


def test_what_hooks_of_parameters_change_is_restored():
    seen = []
    model = nn.Linear(2, 2)
    model.weight.register_hook(lambda gradient: seen.append(1))
    model.bias.register_post_accumulate_grad_hook(lambda parameter: seen.append(2))
    assert assay.observe(model, torch.ones(1, 2), backward=True).run.backward
    assert seen == []


def test_a_weak_proxy_is_no_obstacle():
    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.me = weakref.proxy(self.layer)

        def forward(self, x):
            return self.me(x)

    assert passes.observe(Parent(), (torch.ones(1, 2),), {}).failure is None


def test_the_default_dtype_is_restored():
    class Precise(nn.Module):
        def forward(self, x):
            torch.set_default_dtype(torch.float64)
            return x + torch.zeros(1)

    passes.observe(Precise(), (torch.ones(1),), {})
    assert torch.get_default_dtype() is torch.float32


def test_autocast_keeps_no_casts_of_a_pass_without_gradients():
    model = nn.Linear(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assay.observe(model, torch.ones(1, 2))
        assert model(torch.ones(1, 2)).requires_grad
        assert assay.observe(model, torch.ones(1, 2), backward=True).run.backward


def test_a_replaced_class_is_restored():
    class Reparametrised(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            nn.utils.parametrizations.weight_norm(self.layer)
            return self.layer(x)

    model = Reparametrised()
    expected = model.layer(torch.ones(1, 2))
    assert passes.observe(model, (torch.ones(1, 2),), {}).failure is None
    assert type(model.layer) is nn.Linear
    assert torch.equal(model.layer(torch.ones(1, 2)), expected)


def test_results_that_were_cached_before_survive_new_ones():
    @functools.cache
    def projection(size):
        return torch.randn(size)

    model = Stateful(None, lambda state, x: projection(2) + projection(1))
    before = projection(2)
    assert passes.observe(model, (torch.ones(1, 2),), {}).failure is None
    assert projection(2) is before
    assert projection.cache_info().currsize == 1


SETTINGS = (
    torch.get_default_dtype,
    torch.are_deterministic_algorithms_enabled,
    functools.partial(torch.is_autocast_enabled, "cpu"),
)


@pytest.mark.parametrize("options", [{}, {"backward": True}, {"inputs": None}])
def test_settings_of_torch_are_restored(options):
    class Setting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            torch.set_default_dtype(torch.float64)
            torch.use_deterministic_algorithms(True)
            torch.set_autocast_enabled("cpu", True)
            return self.layer(x)

    before = [read() for read in SETTINGS]
    assay.observe(Setting(), **{"inputs": torch.ones(1, 2), **options})
    assert [read() for read in SETTINGS] == before


def test_reading_weights_leaves_storages_resizable():
    model = nn.BatchNorm1d(2).eval()
    assay.check(model, torch.ones(1, 2))
    assert model.weight.untyped_storage().resizable()


def test_inputs_of_a_lazy_model_are_inferred():
    document = assay.observe(nn.Sequential(nn.LazyLinear(4), nn.ReLU()))
    assert (document.run.inputs_kind, document.run.failure) == ("inferred", None)
    assert len(document.ops) == 2


def test_nothing_keeps_a_model_alive_after_a_pass():
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8))
    passes.observe(model, (), {"input_ids": torch.zeros(1, 4, dtype=torch.long)})
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_class_whose_module_is_not_text_is_followed_like_others():
    class Odd:
        """Like classes of Cython, whose `__module__` is a descriptor."""

    Odd.__module__ = property(lambda self: "odd")  # type: ignore[assignment]

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.odd, self.linear = Odd(), nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x)

    assert len(assay.observe(Holder(), torch.zeros(1, 2)).ops) == 1
