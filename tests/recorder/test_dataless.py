"""Passes without data: the same ops and shapes as with data, known values kept, every assumption recorded."""

from __future__ import annotations

import pytest
import torch
from models import hard
from recorder.bare import split, targets
from torch import nn

from assay.recorder import passes
from assay.recorder.dataless import NeedsDataError

DIFFERS = {
    "autocast",  # autocast on the CPU does not apply to the meta device
    "expert_loop",  # every expert gets all rows
    "generate_loop",  # an assumed True ends the loop
    "nested_jagged",  # builds its offsets differently
    "torch_cond",  # takes the true branch
    "flexible_attention",  # runs in fake mode, decomposed
    "boolean_mask",  # on meta, indexing creates its scalar with another op
    "in_place",  # as above
}


@pytest.mark.parametrize("name", sorted(set(hard.CASES) - DIFFERS))
def test_ops_are_the_same_as_with_data(name):
    model, inputs = hard.CASES[name]()
    args, kwargs = split(inputs)
    real = passes.observe(model, args, kwargs, mode="real")
    meta = passes.observe(model, args, kwargs, mode="meta")
    assert meta.failure is None
    assert targets(meta) == targets(real)


def test_shapes_roles_and_attributes_equal_a_real_pass():
    model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).train()
    x = torch.randn(2, 5, 16)
    real = passes.observe(model, (x,), {}, mode="real", train=True)
    meta = passes.observe(model, (x,), {}, mode="meta", train=True)
    assert meta.mode == "meta"
    assert meta.kinds == real.kinds
    assert meta.calls == real.calls
    assert [op.reads for op in meta.ops] == [op.reads for op in real.ops]


def test_known_values_determine_the_control_flow():
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 8)
            self.head = nn.Linear(8, 2)

        def forward(self, ids):
            lengths = (ids != 0).sum(1)
            x = self.embed(ids)[:, : int(lengths.max())]
            kept = x[ids[:, : x.shape[1]] != 0]
            return self.head(kept) if lengths.min().item() < 3 else x

    ids = torch.tensor([[5, 6, 0, 0], [1, 2, 3, 0]])
    result = passes.observe(Padded(), (ids,), {}, mode="meta")
    assert (result.mode, result.assumptions) == ("meta", ())
    [linear] = [kind for kind in result.kinds if kind.target == "aten.linear.default"]
    assert linear.inputs[0].type.shape == (5, 8)


@pytest.mark.parametrize(
    "shaped",
    [
        lambda mask, x: mask[..., None].expand_as(x),
        lambda mask, x: mask[..., None].expand(x.shape).flatten().view_as(x),
        lambda mask, x: mask[..., None].expand(x.shape).flatten().reshape_as(x),
    ],
)
def test_a_known_mask_stays_known_in_the_shape_of_an_unknown_tensor(shaped):
    class Placeholders(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 8)

        def forward(self, ids):
            x = self.embed(ids)
            return x[shaped(ids == 7, x)]

    result = passes.observe(Placeholders(), (torch.tensor([[1, 7, 7, 2]]),), {}, mode="meta")
    assert result.assumptions == ()
    assert result.kinds[-1].outputs[0].type.shape == (2 * 8,)


def test_unknown_sizes_take_their_upper_bound_with_an_assumption():
    class Picks(nn.Module):
        def forward(self, x):
            rows = (x.sum(1) > 0).nonzero().squeeze(1)
            return x[rows] * 2

    result = passes.observe(Picks(), (torch.randn(6, 3),), {}, mode="meta")
    assert result.kinds[-1].outputs[0].type.shape == (6, 3)
    assert result.assumptions == ("aten.nonzero.default in '(root)': no data, assumed the maximum of 6 elements",)


def test_values_written_into_a_known_tensor_are_unknown():
    class Writes(nn.Module):
        def forward(self, x):
            table = torch.zeros(3, dtype=torch.long)
            table[0] = x.sum().to(torch.long)
            return x * table[0].item()

    result = passes.observe(Writes(), (torch.randn(3),), {}, mode="meta")
    assert result.failure is None
    assert any("aten.item" in line for line in result.assumptions)


def test_a_loop_that_depends_on_data_is_refused_in_a_pass_on_shapes():
    class Converges(nn.Module):
        def forward(self, x):
            while x.norm().item() > 0.5:
                x = x / 2
            return x

    result = passes.observe(Converges(), (torch.ones(4),), {}, mode="meta")
    assert result.mode == "meta"
    assert isinstance(result.error, NeedsDataError)
    assert [attempt.mode for attempt in result.attempts] == ["fake"]


def test_code_may_disable_autocast_for_the_device_of_its_tensors():
    class Exact(nn.Module):
        def forward(self, x, enabled=False):
            with torch.autocast(device_type=x.device.type, enabled=enabled):
                return x.cos()

    result = passes.observe(Exact(), (torch.ones(4),), {}, mode="meta")
    assert (result.mode, result.failure, result.attempts) == ("meta", None, ())
    enabled = passes.observe(Exact(), (torch.ones(4),), {"enabled": True}, mode="meta")
    assert enabled.mode != "meta"  # dtypes would not be those of a real pass
    with pytest.raises(RuntimeError):
        torch.autocast("meta", enabled=False)


def test_a_model_without_weights_runs_on_made_up_ones_if_necessary():
    class Settles(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4, bias=False)

        def forward(self, x):
            while x.norm().item() > 0.01:
                x = self.layer(x)
            return x

    with torch.device("meta"):
        model = Settles()
    result = passes.observe(model, (torch.ones(5, 4),), {})
    assert (result.mode, result.failure) == ("made-up", None)
    assert model.layer.weight.is_meta


def test_splits_by_made_up_sizes_are_even():
    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(4, 2)

        def forward(self, x):
            sizes = self.gate(x).argmax(1).bincount(minlength=2).tolist()
            return [part + 1 for part in x.split(sizes)]

    result = passes.observe(Routed(), (torch.randn(5, 4),), {}, mode="meta")
    assert result.mode == "meta"
    assert [result.kinds[op.kind].outputs[0].type.shape for op in result.ops[-2:]] == [(3, 4), (2, 4)]
    assert any("assumed sizes [3, 2]" in line for line in result.assumptions)


def test_constants_created_on_the_models_device_keep_their_value():
    class Constant(nn.Module):
        def forward(self, x):
            limit = torch.tensor(2, device=x.device)
            return x[: int(limit)] * torch.as_tensor([1.0], device=x.device)

    tensor = torch.tensor
    real = passes.observe(Constant(), (torch.randn(4, 3),), {}, mode="real")
    meta = passes.observe(Constant(), (torch.randn(4, 3),), {}, mode="meta")
    assert targets(meta) == targets(real)
    assert meta.kinds[-1].outputs[0].type.shape == (2, 3)
    assert meta.assumptions == ()
    assert torch.tensor is tensor


@pytest.mark.parametrize("fused", [True, False])
def test_attention_has_the_memory_layout_of_the_fused_kernel(fused):
    class Attention(nn.Module):
        def forward(self, x):
            q, k, v = x.unbind(2)
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            y = nn.functional.scaled_dot_product_attention(q, k, v if fused else v[..., :6])
            return y.transpose(1, 2).contiguous()

    x = torch.randn(2, 5, 3, 4, 8)
    real = passes.observe(Attention(), (x,), {}, mode="real")
    meta = passes.observe(Attention(), (x,), {}, mode="meta")
    assert targets(meta) == targets(real)
    assert meta.kinds == real.kinds


def test_an_op_without_meta_kernel_runs_on_stand_ins():
    lib = torch.library.Library("assay_test", "FRAGMENT")
    lib.define("halve(Tensor x) -> Tensor")
    lib.impl("halve", lambda x: x[: x.shape[0] // 2].clone(), "CPU")

    class Custom(nn.Module):
        def forward(self, x):
            return torch.ops.assay_test.halve(x) + 1

    result = passes.observe(Custom(), (torch.randn(6, 2),), {}, mode="meta")
    assert result.mode == "meta"
    assert result.kinds[-1].outputs[0].type.shape == (3, 2)
    assert "zeros" in result.assumptions[0]
    lib._destroy()


def test_repeated_ops_are_cached(monkeypatch):
    from assay.recorder.dataless import Dataless

    ran = []
    original = Dataless._shape_only
    monkeypatch.setattr(
        Dataless, "_shape_only", lambda self, func, *rest: ran.append(func) or original(self, func, *rest)
    )
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(50)])
    result = passes.observe(model, (torch.randn(2, 4),), {}, mode="meta")
    assert len(result.ops) == 100
    assert len(ran) <= 4
