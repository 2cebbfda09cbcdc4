"""`assay.profile`: times add up, the model is restored, and anything that cannot be measured is noted."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from clocks import ManualClock
from torch import nn

import assay
from assay.analysis.achieved import achieved_rates
from assay.analysis.devices import Device
from assay.api.profile.options import parse_sweep
from assay.document.provenance import Measured
from assay.errors import UsageError
from assay.machine.waiting import Waited
from assay.timing import bench, op_clock, rounds
from assay.timing.module_clock import ModuleClock


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.unused = nn.Linear(2, 2)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu_(self.norm(self.conv(x)))
        return self.head(nn.functional.dropout(x, 0.5, self.training).mean((2, 3)))


class Waiter(nn.Module):
    """Adds one, and moves the clock by what `cost` returns for its input, in nanoseconds."""

    def __init__(self, clock, cost):
        super().__init__()
        self.clock, self.cost = clock, cost

    def forward(self, x):
        self.clock.ns += self.cost(x)
        return x + 1


@pytest.fixture
def clock(monkeypatch):
    """A clock that only models move, on a machine that does nothing else."""
    clock = ManualClock()
    for module in (bench, rounds, op_clock):
        monkeypatch.setattr(module, "now", clock)
    monkeypatch.setattr(rounds, "ModuleClock", lambda: ModuleClock(clock))
    monkeypatch.setattr("assay.api.profile.pass_times.clock_cost_ns", lambda read: 0.0)
    return clock


@pytest.fixture(scope="module")
def profiled():
    model = Net()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.machine.waiting.ProcessorWait.read", lambda self: Waited(0, 0))
        return model, assay.profile(
            model, torch.randn(2, 3, 16, 16), passes=4, warmup=1, backward=True, thread_counts=(1,),
            sweeps=[("batch", [1, 2, 3])],
        )  # fmt: skip


def test_self_times_and_outside_add_up_to_the_pass(profiled):
    _, document = profiled
    timing = document.timing
    inside = sum(row.self_s for row in timing.modules if row is not None)
    assert inside + timing.outside.value == pytest.approx(timing.whole.value)
    assert timing.modules[0].total_s + timing.outside.value == pytest.approx(timing.whole.value)
    for module, row in zip(document.modules, timing.modules, strict=True):
        if row is not None and module.parent is not None:
            assert row.total_s <= timing.modules[module.parent].total_s
    assert timing.whole == document.profile.whole
    assert isinstance(timing.whole.how, Measured)
    assert timing.whole.how.repeats == document.profile.passes == 4


def test_a_module_that_was_not_called_has_no_time(profiled):
    _, document = profiled
    times = dict(zip((module.path for module in document.modules), document.timing.modules, strict=True))
    assert times["unused"] is None
    assert times["conv"].calls == 1
    assert times[""].total_s >= max(times["conv"].total_s, times["head"].total_s)
    assert all(row.total_s >= row.self_s >= 0 for row in times.values() if row is not None)


def test_every_executed_kind_has_a_count_and_a_time(profiled):
    _, document = profiled
    executed = Counter(op.kind for op in document.ops)
    times = document.profile.kinds
    assert {index: row.count for index, row in enumerate(times) if row is not None} == executed
    assert all(row.total_s > 0 for row in times if row is not None)
    total = sum(row.total_s for row in times if row is not None)
    assert document.profile.closure.value * document.profile.whole.value == pytest.approx(total)
    assert sum(document.profile.ops) == pytest.approx(total)
    assert all(row.time_s * row.count == pytest.approx(row.total_s) for row in times if row is not None)
    assert sum(row.share for row in times if row is not None) == pytest.approx(1.0)


def test_a_training_step_has_backward_times_of_trained_modules(profiled):
    _, document = profiled
    step = document.profile.step
    assert step.whole.value > 0
    assert step.optimizer.value > 0
    times = dict(zip((module.path for module in document.modules), step.modules, strict=True))
    assert times["conv"] > 0
    assert times["head"] > 0
    assert times["unused"] is None


def test_sweeps_and_threads(profiled):
    _, document = profiled
    (sweep,) = document.profile.sweeps
    assert [point.sizes["batch"] for point in sweep.points] == [1, 2, 3]
    for point in sweep.points:
        assert point.throughput == pytest.approx(point.sizes["batch"] / point.time.value)
    memory = [point.memory.value for point in sweep.points]
    assert memory[1] - memory[0] == memory[2] - memory[1] > 0
    assert sweep.largest > 1000
    (single,) = document.profile.thread_points
    assert single.threads == 1


@pytest.mark.parametrize("train", [False, True])
def test_the_model_is_left_as_it_was(train):
    model = Net()
    model.conv.weight.grad = torch.ones_like(model.conv.weight)
    model.head.requires_grad_(False)
    x = torch.randn(2, 3, 16, 16)
    values = {name: value.clone() for name, value in model.state_dict().items()}
    x_before, random, threads = x.clone(), torch.get_rng_state(), torch.get_num_threads()
    assay.profile(model, x, passes=2, warmup=1, train=train, backward=True, threads=2, thread_counts=(1, 2))
    assert all(torch.equal(value, values[name]) for name, value in model.state_dict().items())
    assert torch.equal(x, x_before)
    assert torch.equal(model.conv.weight.grad, torch.ones_like(model.conv.weight))
    assert model.head.weight.grad is None
    assert [p.requires_grad for p in model.head.parameters()] == [False, False]
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.get_num_threads() == threads


def test_inputs_and_parameters_modified_by_forward_are_restored():
    class Writer(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            with torch.no_grad():
                self.scale.mul_(2)
            return x.add_(1) * self.scale

    model, x = Writer(), torch.zeros(3)
    assay.profile(model, x, passes=2)
    assert torch.equal(x, torch.zeros(3))
    assert torch.equal(model.scale, torch.ones(3))


def test_a_failed_pass_gives_an_incomplete_document():
    class Stops(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)

        def forward(self, x):
            self.first(x)
            raise RuntimeError("no further")

    document = assay.profile(Stops(), torch.zeros(1, 3), passes=2)
    assert document.timing is None
    assert "no further" in document.run.failure.error
    assert any("no further" in note for note in document.profile.notes)


def test_a_model_that_fails_later_is_restored():
    class Third(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            self.count += 1
            if self.count > 3:
                raise RuntimeError("tired")
            return self.layer(x)

    original = nn.Module.__dict__["__call__"]
    model = Third()
    document = assay.profile(model, torch.zeros(1, 3), passes=9)
    assert document.timing is None
    assert any("tired" in note for note in document.profile.notes)
    assert model.count == 0
    assert nn.Module.__dict__["__call__"] is original


def test_a_model_over_the_memory_limit_is_not_run():
    ran = []

    class Big(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            if not x.is_meta:
                ran.append(1)
            return self.layer(x)

    document = assay.profile(Big(), torch.zeros(8, 64), memory_limit=1000)
    assert not ran
    assert document.timing is None
    assert "the limit is 1,000" in document.profile.notes[0]
    assert document.cost.forward.flops


def test_times_are_those_of_the_clock(clock):
    model = nn.Sequential(Waiter(clock, lambda x: 4_000_000), Waiter(clock, lambda x: 12_000_000))
    document = assay.profile(model, torch.zeros(1), passes=5, warmup=0)
    root, short, long = document.timing.modules
    assert [row.total_s for row in (root, short, long)] == pytest.approx([0.016, 0.004, 0.012])
    assert root.self_s == pytest.approx(0.0)
    assert document.timing.whole.value == pytest.approx(0.016)
    assert document.timing.outside.value == pytest.approx(0.0)


def test_the_knee_is_the_smallest_size_with_90_percent_of_the_best_throughput(clock):
    model = Waiter(clock, lambda x: 8_000_000 + 1_000_000 * len(x))
    sizes = [1, 8, 32, 64, 128]
    document = assay.profile(
        model, torch.zeros(1, 2), passes=2, warmup=0, memory_limit=1 << 16, sweeps=[("batch", sizes)]
    )
    (sweep,) = document.profile.sweeps
    assert [point.throughput for point in sweep.points] == pytest.approx([1000 * n / (8 + n) for n in sizes])
    # 64 rows take 72 ms and 32 take 40 ms: 94 % and 85 % of the 941 rows per second of the largest batch.
    assert sweep.knee == 64


def test_a_sweep_of_one_size_has_no_knee(clock):
    model = Waiter(clock, lambda x: 1_000_000)
    document = assay.profile(
        model, torch.zeros(1, 2), passes=2, warmup=0, memory_limit=1 << 16, sweeps=[("batch", [4])]
    )
    assert document.profile.sweeps[0].knee is None


def test_thread_efficiency_is_speedup_per_thread(clock):
    model = Waiter(clock, lambda x: 2_000_000 + 12_000_000 // torch.get_num_threads())
    document = assay.profile(model, torch.zeros(1, 2), passes=2, warmup=0, thread_counts=(1, 2, 4))
    points = document.profile.thread_points
    assert [point.time.value for point in points] == pytest.approx([0.014, 0.008, 0.005])
    assert [point.efficiency for point in points] == pytest.approx([1.0, 14 / (2 * 8), 14 / (4 * 5)])


def test_thread_efficiency_needs_the_time_of_one_thread(clock):
    model = Waiter(clock, lambda x: 1_000_000)
    document = assay.profile(model, torch.zeros(1, 2), passes=2, warmup=0, thread_counts=(2, 4))
    assert [point.efficiency for point in document.profile.thread_points] == [None, None]


def test_bottlenecks_follow_from_the_limits():
    model = nn.Linear(256, 256)
    document = assay.profile(model, torch.randn(64, 256), passes=3)
    (unknown,) = achieved_rates(document)
    assert unknown.bound == "unknown"
    assert unknown.flops_per_s == pytest.approx(unknown.flops / unknown.time_s)
    exact = unknown.time_s
    tera = unknown.flops / exact / 1e12

    def named(bandwidth, compute, overhead=None):
        device = Device("test", 1.0, bandwidth_gb_s=bandwidth, tflops={"fp32": compute})
        return achieved_rates(document, device, overhead_s=overhead)[0].bound

    slow = unknown.bytes / exact / 1e9
    assert named(slow * 1000, tera) == "compute"
    assert named(slow, tera * 1000) == "memory"
    assert named(slow * 1000, tera * 1000) == "neither"
    assert named(slow, tera * 1000, overhead=exact) == "overhead"


@pytest.mark.parametrize("text", ["batch", "batch=", "batch=0", "batch=a", "=1", "batch=-1"])
def test_a_sweep_that_cannot_be_parsed_is_refused(text):
    with pytest.raises(UsageError, match="batch=1,2,4"):
        parse_sweep(text)


def test_a_saved_document_cannot_be_timed(tmp_path):
    path = tmp_path / "net.assay.json"
    assay.save(assay.observe(nn.Linear(2, 2), torch.zeros(1, 2)), path)
    with pytest.raises(UsageError, match="read, not run"):
        assay.profile(str(path))


def test_an_unsupported_size_is_a_row_with_a_problem():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(10, 4)
            self.places = nn.Embedding(4, 4)

        def forward(self, ids):
            if ids.shape[1] > 4:
                raise IndexError("there are 4 places")
            return self.words(ids) + self.places(torch.arange(ids.shape[1]))

    ids = torch.zeros(1, 2, dtype=torch.long)
    document = assay.profile(Positions(), ids, passes=2, warmup=0, sweeps=[("seq", [2, 8])])
    supported, unsupported = document.profile.sweeps[0].points
    assert supported.time.value > 0
    assert unsupported.time.value is None
    assert "there are 4 places" in unsupported.problem
    assert document.timing is not None


def test_results_before_a_failed_step_are_kept(monkeypatch):
    def fails(*_):
        raise ValueError("no more")

    monkeypatch.setattr("assay.api.profile.sweep.threads", fails)
    document = assay.profile(nn.Linear(2, 2), torch.zeros(1, 2), passes=2, thread_counts=(1,))
    assert document.timing.whole.value > 0
    assert document.profile.notes[-1] == "measuring stopped: ValueError: no more"


def test_a_given_limit_is_not_a_measurement():
    model, x = nn.Linear(64, 64), torch.zeros(1, 64)
    weights = 4 * (64 * 64 + 64)
    limit = weights + 10 * 4 * (64 + 64)
    document = assay.profile(model, x, passes=2, memory_limit=limit, sweeps=[("batch", [1, 50])])
    (sweep,) = document.profile.sweeps
    assert sweep.limit.value == limit
    assert not isinstance(sweep.limit.how, Measured)
    assert sweep.largest == 10
    assert sweep.points[1].problem
    assert sweep.points[1].time.value is None


def test_an_impossible_training_step_is_noted():
    class Chooses(nn.Linear):
        def forward(self, x):
            return super().forward(x).argmax(1)

    document = assay.profile(Chooses(2, 2), torch.zeros(1, 2), passes=2, backward=True)
    assert document.timing is not None
    assert document.profile.step is None
    assert any(note.startswith("no training step: ") for note in document.profile.notes)


def test_on_a_device_modules_are_ranked_by_device_time():
    from msgspec.structs import replace

    from assay.views.text.profile_modules import module_table

    document = assay.profile(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.zeros(1, 8), passes=2)
    times = document.timing.modules
    placed = [replace(time, device_total_s=device, device_self_s=own, self_share=own / 3e-3)
              for time, device, own in zip(times, (3e-3, 1e-3, 2e-3), (0.0, 1e-3, 2e-3), strict=True)]  # fmt: skip
    table = module_table(replace(document, timing=replace(document.timing, modules=placed)))
    rows = table.values()
    assert [row["module"] for row in rows] == ["1", "0", "(root)"]
    assert [row["self share"] for row in rows] == pytest.approx([2 / 3, 1 / 3, 0.0])
    assert rows[0]["FLOP/s"] == pytest.approx(rows[0]["FLOPs"] / 2e-3)
    assert "device self s" not in [column.title for column in module_table(document).columns]
