"""Regression tests for promises that were once broken."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch import nn
from versions import require

import assay
from assay.analysis.devices import find_device
from assay.analysis.roofline import roofline_of
from assay.errors import ReadError, UsageError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def test_a_grouped_product_reads_no_more_experts_than_rows():
    require("torch", "2.8", "grouped_mm")

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(16, 32, 64, dtype=torch.bfloat16, device="meta"))

        def forward(self, x, ends):
            return torch._grouped_mm(x, self.weight, ends)

    rows = torch.empty(2, 32, dtype=torch.bfloat16, device="meta")
    document = assay.observe(Experts(), (rows, torch.tensor([2] * 16, dtype=torch.int32)))
    assert document.cost.forward.read_parameters == 2 * 32 * 64 * 2
    assert document.cost.forward.macs == 2 * 32 * 64


def test_packed_weights_are_parameters():
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    document = assay.observe(quantized, torch.randn(4, 256))
    weights = [row for row in document.tensors if row.type.dtype == "qint8"]
    assert [row.bytes for row in weights] == [256 * 256] * 2
    assert document.cost.forward.macs == 2 * 4 * 256 * 256
    assert assay.memory(quantized, torch.randn(4, 256)).inference.total.value > 2 * 256 * 256


def test_a_training_step_records_forward_in_training_mode_too():
    model = nn.Sequential(nn.BatchNorm2d(4), nn.Dropout(0.5))
    document = assay.observe(model, torch.randn(2, 4, 8, 8), backward=True)
    assert document.run.training
    [norm] = [kind for kind in document.kinds if kind.name == "torch.batch_norm"]
    assert norm.attributes["training"] is True
    assert model[0].training
    assert model[0].num_batches_tracked == 0


def test_the_roofline_of_a_training_step_is_longer():
    document = assay.observe(nn.Linear(64, 64), torch.randn(8, 64), backward=True)
    device = find_device("H100")
    assert roofline_of(document, device, training=True).bound_s > roofline_of(document, device).bound_s


def test_modules_after_a_failure_have_unknown_flops():
    document = assay.observe(nn.Sequential(nn.ReLU(), nn.Linear(9, 9)), torch.randn(2, 3))
    assert document.cost.modules[2].total.flops is None
    assert document.cost.modules[1].total.flops == 6
    assert assay.observe(nn.Linear(9, 9), torch.randn(2, 3)).cost.forward.flops is None


def test_modules_inside_torchscript_have_flops_of_their_own():
    document = assay.observe(torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), torch.randn(2, 4))
    assert document.cost.forward.macs == 2 * 16
    assert [entry.total.flops for entry in document.cost.modules[1:]] == [2 * 2 * 16 + 2 * 4, 2 * 4]
    assert document.run.assumptions == ()


@pytest.mark.parametrize("result", [-5, {"macs": -1}, {"macs": 1.5}])
def test_a_users_formula_must_return_non_negative_whole_numbers(result):
    from assay.analysis.cost.own_ops import _work

    with pytest.raises(UsageError, match="integers of 0 or more"):
        _work(result, "mylib::op")


def test_models_that_use_gradients_in_forward_run():
    class Retains(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            y = self.layer(x)
            y.retain_grad()
            y.register_hook(lambda gradient: gradient)
            return y

    assert assay.observe(Retains(), torch.randn(2, 4)).run.failure is None


def test_an_unknown_device_is_refused_before_anything_runs():
    with pytest.raises(UsageError, match="unknown device 'nonsense': expected cpu"):
        assay.observe(nn.Linear(4, 4), torch.randn(2, 4), device="nonsense")


def test_a_saved_document_with_a_lost_row_is_damaged(tmp_path):
    document = assay.observe(nn.Linear(4, 4), torch.randn(2, 4))
    op = msgspec.structs.replace(document.ops[0], kind=9999)
    assay.save(msgspec.structs.replace(document, ops=[op]), tmp_path / "d.assay.json")
    with pytest.raises(ReadError, match="damaged: an op's kind has index 9999, which is out of range"):
        assay.load(tmp_path / "d.assay.json")


def test_options_that_cannot_apply_to_a_saved_document_are_refused(tmp_path):
    assay.save(assay.observe(nn.Linear(4, 4), torch.randn(2, 4)), tmp_path / "d.assay.json")
    with pytest.raises(
        UsageError, match=r"inputs, train cannot be used with .*, which is not run: give the model itself"
    ):
        assay.observe(str(tmp_path / "d.assay.json"), "2x4", train=True)


def test_inputs_are_not_modified():
    class Appends(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x, notes):
            notes.append(1)
            return self.layer(x)

    x, notes = torch.randn(3, 8, requires_grad=True), [0]
    assay.observe(Appends(), ((x, notes), {}), backward=True)
    assert x.grad is None
    assert notes == [0]


def test_deeply_nested_models_are_recorded():
    model = nn.Linear(2, 2)
    for _ in range(180):
        model = nn.Sequential(model)
    assert assay.observe(model, torch.randn(1, 2)).run.failure is None
