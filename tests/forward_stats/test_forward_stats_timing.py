"""Times of calls: they exclude the time spent recording, and the explorer's times add up."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import assay
from assay.forward_stats import recorder, timing_of
from assay.forward_stats.on_device import PIECE, Queue, from_vector, kind_of, vector


class Clock:
    """A clock that only advances when a test sets it."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


class Work(nn.Module):
    """A module that takes `took` before, between and after its children."""

    def __init__(self, clock, took, *children):
        super().__init__()
        self.clock, self.took = clock, took
        self.inner = nn.ModuleList(children)

    def forward(self, x):
        self.clock.now += self.took
        for child in self.inner:
            x = child(x * 1)  # a new tensor, so that it has to be read
            self.clock.now += self.took
        return x + 1


@pytest.fixture
def clock(monkeypatch):
    """A test clock on which reading a tensor's values takes a million nanoseconds."""
    from assay.forward_stats import on_cpu

    clock, original = Clock(), on_cpu.values

    def slow(tensor, count):
        clock.now += 1_000_000
        return original(tensor, count)

    monkeypatch.setattr(on_cpu, "values", slow)
    monkeypatch.setattr(recorder, "_clock", clock)
    return clock


def tree(clock):
    return Work(clock, 1, Work(clock, 10, Work(clock, 100)), Work(clock, 1000))


def rows(model):
    return assay.observe(model, torch.zeros(2)).modules


def test_times_exclude_the_time_spent_recording(clock):
    model = tree(clock)
    with assay.record_forward_stats(model):
        model(torch.zeros(2))
    first, second = model.inner
    times = [module.forward_stats[0].time_ns for module in (model, first, first.inner[0], second)]
    own = [module.forward_stats[0].self_time_ns for module in (model, first, first.inner[0], second)]
    assert times == [3 + 20 + 100 + 1000, 120, 100, 1000]
    assert own == [3, 20, 100, 1000]


def test_times_of_failed_calls_are_kept(clock):
    class Fails(nn.Module):
        def forward(self, x):
            clock.now += 7
            raise ValueError

    model = Work(clock, 1, Work(clock, 10), Fails())
    with pytest.raises(ValueError), assay.record_forward_stats(model):
        model(torch.zeros(2))
    assert (model.forward_stats[0].time_ns, model.forward_stats[0].self_time_ns) == (1 + 10 + 1 + 7, 2)
    assert model.inner[1].forward_stats[0].time_ns == 7


def test_the_timing_adds_up_to_the_median_pass(clock):
    model = tree(clock)
    modules = rows(model)
    with assay.record_forward_stats(model, values=False):
        for factor in (5, 1, 3):
            for module in model.modules():
                if isinstance(module, Work):
                    module.took *= factor
            model(torch.zeros(2))
    timing = timing_of(model, modules)
    known = [time for time in timing.modules if time is not None]
    assert sorted(time.calls for time in known) == [1, 1, 1, 1]
    assert timing.whole.value == pytest.approx(1123 * 5e-9)
    assert sum(time.self_s for time in known) + timing.outside.value == pytest.approx(timing.whole.value, rel=1e-12)
    assert timing.outside.value == 0
    assert timing.whole.how.repeats == 3
    assert timing.whole.how.spread == pytest.approx((10 * 1123) / 2 / 2 * 1e-9)
    by_path = {module.path: time for module, time in zip(modules, timing.modules, strict=True)}
    assert by_path["inner"] is None
    assert by_path["inner.0"].total_s == pytest.approx(120 * 5e-9)
    assert by_path["inner.0"].self_s == pytest.approx(20 * 5e-9)


def test_modules_without_a_row_count_as_outside(clock):
    model = tree(clock)
    modules = [module for module in rows(model) if module.path != "inner.1"]
    with assay.record_forward_stats(model):
        model(torch.zeros(2))
    timing = timing_of(model, modules)
    assert timing.outside.value == pytest.approx(1000e-9)


def test_recursion_counts_once(clock):
    class Recursive(nn.Module):
        def forward(self, x, n=3):
            clock.now += 10
            return self(x, n - 1) if n else x

    model = Recursive()
    with assay.record_forward_stats(model):
        model(torch.zeros(2))
    [time] = timing_of(model, rows(model)[:1]).modules
    assert (time.calls, time.total_s, time.self_s) == (4, pytest.approx(40e-9), pytest.approx(40e-9))


def test_dropped_calls_make_the_outside_unknown(clock):
    shared = Work(clock, 5)
    model = nn.Sequential(shared, shared, nn.Identity())
    modules = rows(model)
    assert timing_of(model, modules) is None
    with assay.record_forward_stats(model, keep=1):
        model(torch.zeros(2))
    timing = timing_of(model, modules)
    assert timing.whole.value == pytest.approx(10e-9)
    assert timing.outside.value is None


def test_several_outermost_calls_are_one_pass(clock):
    model = tree(clock)
    modules = rows(model)
    with assay.record_forward_stats(model):
        model.inner[0](torch.zeros(2))
        model.inner[1](torch.zeros(2))
    timing = timing_of(model, modules)
    assert timing.whole.value == pytest.approx(1120e-9)
    assert timing.outside.value == 0


def test_real_times_add_up():
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(5)))
    modules = rows_of = assay.observe(model, torch.zeros(2, 32)).modules
    with assay.record_forward_stats(model):
        for _ in range(4):
            model(torch.zeros(2, 32))
    timing = timing_of(model, rows_of)
    total = sum(time.self_s for time in timing.modules if time is not None) + timing.outside.value
    assert total == pytest.approx(timing.whole.value, rel=1e-9)
    assert len(timing.modules) == len(modules)


# --- the code for accelerators, on CPU tensors


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
@pytest.mark.parametrize("count", [1, 7, 1000])
def test_a_vector_matches_torch(dtype, count):
    torch.manual_seed(0)
    x = torch.randn(count, dtype=torch.float64).mul(9).to(dtype)
    values = from_vector(vector(x, kind_of(x)), kind_of(x), count)
    wide = x.to(torch.complex128) if x.is_complex() else x.double()
    assert values.mean == pytest.approx(wide.mean().item(), rel=1e-5, abs=1e-6)
    assert values.std == (None if count == 1 else pytest.approx(wide.std().item(), rel=1e-5))
    if not x.is_complex():
        assert (values.min, values.max) == (wide.min().item(), wide.max().item())


def test_pieces_are_combined(monkeypatch):
    from assay.forward_stats import on_device

    monkeypatch.setattr(on_device, "PIECE", 64)
    assert PIECE > 64
    x = torch.randn(1000) + torch.arange(1000)
    values = from_vector(vector(x, "float"), "float", 1000)
    assert values.mean == pytest.approx(x.double().mean().item(), rel=1e-6)
    assert values.std == pytest.approx(x.double().std().item(), rel=1e-6)


def test_a_queue_fetches_everything_in_one_transfer(monkeypatch):
    fetched = []
    original = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: fetched.append(tuple(tensor.shape)) or original(tensor))
    queue = Queue()
    big = torch.tensor([2**60 + 1, -5])
    waiting = [queue.put(torch.full((3,), float(i)), "float", 3) for i in range(4)] + [queue.put(big, "int", 2)]
    assert fetched == []
    assert [each.get().max for each in waiting] == [0, 1, 2, 3, 2**60 + 1]
    assert fetched == [(5, 6)]
