"""Cost totals: the sums over ops, calls, modules and categories are equal."""

from __future__ import annotations

import msgspec
import pytest
import torch
from models import hard
from torch import nn

from assay import observe
from assay.analysis.cost import totals as costing
from assay.document.cost import CostTotals

FIELDS = CostTotals.__struct_fields__


def added(totals):
    return [sum(getattr(entry, name) for entry in totals) for name in FIELDS]


@pytest.mark.parametrize("name", sorted(hard.CASES))
def test_every_level_adds_up_to_the_total(name):
    model, inputs = hard.CASES[name]()
    document = observe(model, (tuple(inputs), {}) if isinstance(inputs, tuple) else inputs)
    cost = document.cost
    whole = list(msgspec.structs.astuple(cost.forward))
    assert added([cost.outside, *(entry.own for entry in cost.modules)]) == whole
    assert added([cost.outside, *costing.per_call(document, cost)]) == whole
    assert added(cost.categories.values()) == whole
    assert cost.forward.ops == len(document.ops)
    executions = [cost.kinds[op.kind] for op in document.ops]
    assert cost.forward.macs == sum(kind.macs or 0 for kind in executions)
    assert cost.forward.written == sum(kind.written for kind in executions)
    roots = [i for i, call in enumerate(document.calls) if call.parent is None]
    if len(roots) == 1 and document.calls[roots[0]].module == 0:
        assert added([cost.outside, cost.modules[0].total]) == whole


def test_total_is_own_plus_children_and_calls_multiply():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8, bias=False)

        def forward(self, x):
            return self.layer(self.layer(x)) + x

    document = observe(nn.Sequential(Block(), Block()), torch.randn(4, 8))
    costs = dict(zip([row.path for row in document.modules], document.cost.modules, strict=True))
    assert costs["0.layer"].own.macs == 2 * 4 * 8 * 8
    assert costs["0"].own.macs == 0
    assert costs["0"].total.macs == costs["0.layer"].total.macs
    assert costs["0"].own.pointwise_flops == 4 * 8
    assert costs[""].total.macs == 4 * 4 * 8 * 8


def test_a_recursive_module_is_counted_once():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4, bias=False)

        def forward(self, x, depth=3):
            x = self.layer(x)
            return x if depth == 0 else self(x, depth - 1)

    document = observe(Nested(), torch.randn(2, 4))
    assert document.cost.modules[0].total.macs == document.cost.forward.macs == 4 * 2 * 16


def test_an_unknown_op_lowers_coverage_and_is_listed():
    lib = torch.library.Library("assay_costing", "FRAGMENT")
    lib.define("mystery(Tensor x) -> Tensor")
    lib.impl("mystery", lambda x: x.clone(), "CPU")

    class Mystery(nn.Module):
        def forward(self, x):
            return torch.ops.assay_costing.mystery(x) + torch.ops.assay_costing.mystery(x)

    cost = observe(Mystery(), torch.randn(3)).cost
    assert cost.coverage == pytest.approx(1 / 3)
    [unknown] = cost.unknown
    assert (unknown.target, unknown.count) == ("assay_costing.mystery.default", 2)
    assert cost.forward.flops == 3, "only the known part; the coverage shows that it is incomplete"
    lib._destroy()


def test_a_sum_of_unknowns_is_unknown():
    assert CostTotals(ops=2, unknown_ops=2).flops is None
    assert CostTotals(ops=2, unknown_ops=1, matrix_flops=6).flops == 6
    assert CostTotals().flops == 0
