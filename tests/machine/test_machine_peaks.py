"""Machine limits measured with torch: plausible values, and the caller's settings stay unchanged."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from assay.document.machine import Cache, WorkingSet  # noqa: E402
from assay.timing.peaks import arithmetic, dispatch, memory, operations  # noqa: E402
from assay.timing.peaks.bursts import TimedDevice, bursts, rate, timed_device  # noqa: E402
from assay.timing.peaks.effort import Effort  # noqa: E402
from assay.timing.peaks.measuring import measure, unavailable_reason  # noqa: E402
from assay.timing.settings import matmul_precision  # noqa: E402
from assay.timing.settings import threads as set_threads  # noqa: E402


class Scripted(TimedDevice):
    """A device with a fake clock; one run takes `each` seconds."""

    def __init__(self, *each: float) -> None:
        super().__init__(torch.device("cpu"), 0.004, "script")
        object.__setattr__(self, "each", list(each))

    def timed(self, run, count: int) -> float:
        each = self.each.pop(0) if len(self.each) > 1 else self.each[0]
        return each * count


@pytest.fixture
def quick(monkeypatch):
    """Tiny time budgets."""
    monkeypatch.setattr(arithmetic, "SIZES", {"cpu": (32, 64)})
    monkeypatch.setattr(arithmetic, "BUDGET_S", {"cpu": 0.01})
    monkeypatch.setattr(memory, "LEAST_BYTES", {"cpu": 1 << 16})
    monkeypatch.setattr(memory, "BUDGET_S", {"cpu": 0.002})
    monkeypatch.setattr(memory, "_POINT_S", 0.001)
    monkeypatch.setattr(dispatch, "BUDGET_S", 0.002)
    monkeypatch.setattr(arithmetic, "SCALING_S", 0.002)
    monkeypatch.setattr(arithmetic, "SCALING_SIZE", 32)


def test_rates_are_work_over_time():
    found = rate("copy", [2.0, 1.0, 4.0], 8.0, "here", "clock")
    assert (found.best.value, found.median.value) == (8.0, 4.0)
    assert found.median.how.spread == pytest.approx((6.0 - 3.0) / 2)
    assert found.best.how.repeats == 3


def test_a_burst_has_the_requested_length():
    times = bursts(Scripted(0.5, 0.001, 0.001, 0.002, 0.0005), lambda: None, 0.0)
    assert times[0] == 0.001
    assert bursts(Scripted(9.0), lambda: None, 0.0) == [9.0]


def test_all_limits_of_this_processor(quick):
    state, before = torch.get_rng_state(), torch.get_num_threads()
    steps: list[str] = []
    found = measure("cpu", (Cache(1, 1 << 14), Cache(2, 1 << 15)), 1 << 34, steps.append)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == before
    assert [one.name for one in found.arithmetic] == ["fp64", "fp32", "bf16", "fp16", "int8"]
    assert [one.name for one in found.bandwidth] == ["read", "copy", "triad"]
    known = [one for one in (*found.arithmetic, *found.bandwidth, *found.overhead) if one.value is not None]
    assert {"fp32", "copy", "add"} <= {one.name for one in known}
    assert all(one.value > 0 and one.median.value > 0 for one in known)
    assert all(one.median.value <= one.value for one in (*found.arithmetic, *found.bandwidth) if one.value)
    assert [row.threads for row in found.scaling][-1] == before
    assert found.scaling[0].efficiency == 1.0
    assert steps


def test_a_quick_measurement_leaves_out_details_and_what_would_take_too_long(quick):
    effort = Effort(share=0.5, limit_s=0.0, details=False)
    found = measure("cpu", (Cache(1, 1 << 14),), 1 << 34, lambda _: None, effort)
    assert {one.name for one in found.arithmetic if one.value is not None} == {"fp32", "bf16"}
    assert [one.name for one in found.arithmetic] == ["fp64", "fp32", "bf16", "fp16", "int8"]
    assert all(one.value for one in (*found.bandwidth, *found.overhead))
    assert (found.sweep, found.levels, found.scaling) == ([], [], [])
    assert found.left_out == ["fp64", "fp16", "int8", "caches", "thread scaling"]


def test_a_quick_measurement_spends_its_share_of_every_budget(quick, monkeypatch):
    """The sum of all budgets shrinks with `share`."""
    budgets: list[float] = []

    def no_time(where, run, budget_s):
        budgets.append(budget_s)
        return [1.0]

    for module in (arithmetic, dispatch, memory):
        monkeypatch.setattr(module, "bursts", no_time)
    spent = []
    for share in (1.0, 0.5):
        budgets.clear()
        measure("cpu", (), 1 << 34, lambda _: None, Effort(share=share, details=False))
        spent.append(sum(budgets))
    assert spent[1] == pytest.approx(spent[0] / 2)


def test_arrays_hold_random_numbers_up_to_their_end(monkeypatch):
    monkeypatch.setattr(memory, "_BLOCK", 4)
    array = memory._array(timed_device("cpu"), 10)
    assert array.shape == (10,)
    assert torch.equal(array[:4], array[4:8])
    assert len(array.unique()) == 4


def test_a_time_limit_counts_from_its_start():
    clock = iter([10.0, 14.9, 15.0])
    is_late = Effort(limit_s=5.0).timer(lambda: next(clock))
    assert [is_late(), is_late()] == [False, True]
    assert not Effort().timer()()


def test_a_precision_torch_cannot_multiply_is_unknown(quick, monkeypatch):
    def refuse(where: TimedDevice, size: int):
        raise RuntimeError("not implemented for 'Odd'\nand more")

    monkeypatch.setitem(arithmetic.PRECISIONS, "int8", arithmetic.Precision(refuse))
    found = arithmetic.peak(timed_device("cpu"), "int8")
    assert found.value is None
    assert (
        found.best.how.why == "torch does not support this matrix product on this device: not implemented for 'Odd'"
    )


@pytest.mark.parametrize("name", ["fp64", "fp32", "bf16", "int8"])
def test_products_have_the_reported_size(name):
    seen = []

    class Shapes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.extend(tuple(one.shape) for one in args if isinstance(one, torch.Tensor))
            return func(*args, **(kwargs or {}))

    run = arithmetic.product(timed_device("cpu"), name, 48)
    with Shapes():
        run()
    assert seen == [(48, 48), (48, 48)]


def test_levels_use_the_working_sets_that_fit_them():
    caches = (Cache(1, 1000), Cache(2, 10_000))
    points = [WorkingSet(500, 50.0), WorkingSet(5000, 40.0), WorkingSet(9000, 99.0), WorkingSet(100_000, 10.0)]
    found = {level.name: level.bandwidth.value for level in memory.levels(points, caches, 0.0)}
    assert found == {"L1": 50.0, "L2": 40.0, "memory": 10.0}
    hidden = memory.levels(points, caches, overhead_s=5.0)[0].bandwidth
    assert hidden.value is None
    assert "op overhead dominates" in hidden.how.why


def test_arrays_are_larger_than_caches_and_smaller_than_memory():
    where = timed_device("cpu")
    assert memory.array_bytes(where, (Cache(3, 1 << 28),), 1 << 40) == 1 << 30
    assert memory.array_bytes(where, (), 1 << 30) == 1 << 25


def test_settings_are_restored():
    before, count = torch.get_float32_matmul_precision(), torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), matmul_precision("high"), set_threads(count + 1):
        raise ZeroDivisionError
    assert (torch.get_float32_matmul_precision(), torch.get_num_threads()) == (before, count)


def test_thread_counts_nest_and_none_changes_nothing():
    before = torch.get_num_threads()
    with set_threads(before + 1):
        with set_threads(before + 2):
            assert torch.get_num_threads() == before + 2
        with set_threads(None):
            assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_an_unavailable_device_is_reported():
    assert unavailable_reason("cpu") == ""
    assert "cpu or cuda" in unavailable_reason("tpu")
    if not torch.cuda.is_available():
        assert "no CUDA" in unavailable_reason("cuda")


def test_every_op_runs_and_its_cost_is_known():
    """FLOPs agree with torch's own counter, for the ops it supports."""
    from torch.utils.flop_counter import FlopCounterMode

    import assay
    from assay.analysis.devices import find_device
    from assay.analysis.energy import work_of

    before = torch.get_rng_state()
    names = []
    for operation in operations.operations(timed_device("cpu")):
        names.append(operation.name)
        document = assay.observe(operation.module, (operation.inputs, {}), mode="meta")
        work, missing = work_of(document, find_device("H200"))
        assert missing == ()
        assert work.bytes > 0
        if not any(word in operation.name for word in ("attention", "layer bf16", "GRU", "depthwise", "decoder")):
            with FlopCounterMode(display=False) as counter, torch.no_grad(), torch.device("meta"):
                operation.module.to("meta")(*(one.to("meta") for one in operation.inputs))
            matrix = sum(flops for name, flops in work.flops.items() if name != "pointwise")
            assert counter.get_total_flops() == matrix, operation.name
    assert len(names) == len(set(names)) > 30
    assert torch.equal(before, torch.get_rng_state())
