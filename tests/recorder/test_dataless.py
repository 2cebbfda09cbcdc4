"""Without data: the same operations and shapes as with it, known values kept, every guess noted."""

from __future__ import annotations

import pytest
import torch
from models import hard
from recorder.bare import split, targets
from torch import nn

from assay.recorder import passes

DIFFERS = {
    "autocast",  # the CPU's autocast does not apply to the meta device
    "expert_loop",  # every expert gets all rows
    "generate_loop",  # a guess of True ends the loop
    "nested_jagged",  # builds its offsets differently
    "torch_cond",  # takes the true branch
    "flexible_attention",  # fake, decomposed
    "boolean_mask",  # indexing writes its scalar by another constructor on meta
    "in_place",  # likewise
}


@pytest.mark.parametrize("name", sorted(set(hard.CASES) - DIFFERS))
def test_same_operations_as_with_data(name):
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


def test_known_values_steer_the_model():
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
    shown = passes.observe(Padded(), (ids,), {}, mode="meta")
    assert (shown.mode, shown.assumptions) == ("meta", ())
    [linear] = [kind for kind in shown.kinds if kind.target == "aten.linear.default"]
    assert linear.inputs[0].type.shape == (5, 8)


def test_unknown_sizes_take_their_upper_bound_and_say_so():
    class Picks(nn.Module):
        def forward(self, x):
            rows = (x.sum(1) > 0).nonzero().squeeze(1)
            return x[rows] * 2

    shown = passes.observe(Picks(), (torch.randn(6, 3),), {}, mode="meta")
    assert shown.kinds[-1].outputs[0].type.shape == (6, 3)
    assert shown.assumptions == ("aten.nonzero.default in '(root)': no data, took all 6 elements",)


def test_values_written_into_a_known_tensor_are_unknown():
    class Writes(nn.Module):
        def forward(self, x):
            table = torch.zeros(3, dtype=torch.long)
            table[0] = x.sum().to(torch.long)
            return x * table[0].item()

    shown = passes.observe(Writes(), (torch.randn(3),), {}, mode="meta")
    assert shown.failure is None
    assert any("aten.item" in line for line in shown.assumptions)


def test_a_loop_that_waits_for_data_falls_back_to_real_arithmetic():
    class Converges(nn.Module):
        def forward(self, x):
            while x.norm().item() > 0.5:
                x = x / 2
            return x

    shown = passes.observe(Converges(), (torch.ones(4),), {}, mode="meta")
    assert (shown.mode, shown.failure) == ("real", None)
    assert "the meta pass stopped" in shown.assumptions[0]


def test_model_without_weights_runs_on_made_up_ones_where_it_must():
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
    shown = passes.observe(model, (torch.ones(5, 4),), {})
    assert (shown.mode, shown.failure) == ("made-up", None)
    assert model.layer.weight.is_meta


def test_sizes_read_from_made_up_values_are_shared_out():
    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(4, 2)

        def forward(self, x):
            sizes = self.gate(x).argmax(1).bincount(minlength=2).tolist()
            return [part + 1 for part in x.split(sizes)]

    shown = passes.observe(Routed(), (torch.randn(5, 4),), {}, mode="meta")
    assert shown.mode == "meta"
    assert [shown.kinds[op.kind].outputs[0].type.shape for op in shown.ops[-2:]] == [(3, 4), (2, 4)]
    assert any("took sizes [3, 2]" in line for line in shown.assumptions)


def test_constants_made_on_the_models_device_keep_their_value():
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
def test_attention_lies_in_memory_as_the_fused_kernel_leaves_it(fused):
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


def test_an_operation_without_meta_kernel_runs_on_stand_ins():
    lib = torch.library.Library("assay_test", "FRAGMENT")
    lib.define("halve(Tensor x) -> Tensor")
    lib.impl("halve", lambda x: x[: x.shape[0] // 2].clone(), "CPU")

    class Custom(nn.Module):
        def forward(self, x):
            return torch.ops.assay_test.halve(x) + 1

    shown = passes.observe(Custom(), (torch.randn(6, 2),), {}, mode="meta")
    assert shown.mode == "meta"
    assert shown.kinds[-1].outputs[0].type.shape == (3, 2)
    assert "zeros" in shown.assumptions[0]
    lib._destroy()


def test_repeats_come_from_memory_not_from_meta_kernels(monkeypatch):
    from assay.recorder.dataless import Dataless

    ran = []
    original = Dataless._shape_only
    monkeypatch.setattr(
        Dataless, "_shape_only", lambda self, func, *rest: ran.append(func) or original(self, func, *rest)
    )
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(50)])
    shown = passes.observe(model, (torch.randn(2, 4),), {}, mode="meta")
    assert len(shown.ops) == 100
    assert len(ran) <= 4
