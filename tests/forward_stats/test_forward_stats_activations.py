"""Statistics of outputs that wait on a device are those that are computed at once on a CPU."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch import nn

from assay.forward_stats import on_device, reading
from assay.forward_stats.activations import record_values
from assay.forward_stats.gradients import record_gradients
from assay.recorder.watch import PassSettings


class Everything(nn.Module):
    """Views, writes in place, flat ends, dead channels, NaN, infinities, and a module that is called twice."""

    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x):
        x = torch.relu_(self.inner(self.inner(x).t().contiguous().t()))
        y = torch.sigmoid(20 * self.norm(x))
        return y, torch.log(y - 0.5), y / 0, y.to(torch.int64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Everything().eval()


@pytest.fixture
def inputs():
    return (torch.randn(64, 8),)


def on_accelerator(tensor, queue):
    """What is read of a tensor on an accelerator."""
    tensor = tensor.detach()
    return queue.put(tensor, on_device.kind_of(tensor), tensor.numel())


def test_waiting_statistics_are_the_same(model, inputs, monkeypatch):
    setting = PassSettings("real", False)
    expected = record_values(model, inputs, {}, setting)
    monkeypatch.setattr(reading, "_values_of", on_accelerator)
    waited = record_values(model, inputs, {}, setting)
    for ours, theirs in zip(waited.ops + waited.modules, expected.ops + expected.modules, strict=True):
        for name in msgspec.structs.asdict(theirs):
            value = getattr(theirs, name)
            near = pytest.approx(value, rel=1e-5, abs=1e-6) if isinstance(value, float) else value
            assert getattr(ours, name) == near, name
    assert (waited.first_nan, waited.first_inf) == (expected.first_nan, expected.first_inf)
    assert expected.first_nan.op == "aten.log"
    assert expected.first_inf.op == "aten.div"


def test_waiting_gradients_are_the_same(model, inputs, monkeypatch):
    setting = PassSettings("real", True, autograd=True, backward=True)
    expected = record_gradients(model, inputs, {}, setting, keep_parameters=False)
    monkeypatch.setattr(reading, "_values_of", on_accelerator)
    for ours, theirs in zip(
        record_gradients(model, inputs, {}, setting, keep_parameters=False), expected, strict=True
    ):
        assert (ours.nan, ours.inf, ours.received) == (theirs.nan, theirs.inf, theirs.received)
        assert ours.norm == (None if theirs.norm is None else pytest.approx(theirs.norm, rel=1e-5))


def test_calls_of_one_module_are_merged(model, inputs):
    values = record_values(model, inputs, {}, PassSettings("real", False))
    (row,) = [row for row in values.ops if row.op == "aten.linear"]
    first = model.inner(*inputs)
    both = torch.stack([first, model.inner(first)]).double()
    assert (row.executions, row.count) == (2, both.numel())
    assert row.mean == pytest.approx(both.mean().item(), rel=1e-5)
    assert row.rms == pytest.approx(both.square().mean().sqrt().item(), rel=1e-5)
    assert (row.min, row.max) == pytest.approx((both.min().item(), both.max().item()))


def test_statistics_are_fetched_before_too_many_wait(model, inputs, monkeypatch):
    lengths = []
    monkeypatch.setattr(reading, "_values_of", on_accelerator)
    monkeypatch.setattr("assay.forward_stats.value_log._MAX_WAITING", 5)
    resolve = on_device.Queue.resolve
    monkeypatch.setattr(on_device.Queue, "resolve", lambda queue: (lengths.append(len(queue)), resolve(queue)))
    record_values(model, inputs, {}, PassSettings("real", False))
    assert len([length for length in lengths if length > 5]) > 1
    assert max(lengths) < 5 + 20


def test_values_are_read_of_tensors_without_all_ops():
    class Ragged(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.inner(x))

    parts = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)])
    values = record_values(Ragged(), (parts,), {}, PassSettings("real", False))
    assert values.failure == ""
