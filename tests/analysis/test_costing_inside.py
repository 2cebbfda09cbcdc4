"""Totals over calls: nested calls count once, and a container has the cost of its submodules."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from assay import observe
from assay.analysis.cost import totals as costing
from assay.analysis.executed import executed_kinds, grouped
from assay.document.cost import CostTotals


class Stack(nn.Module):
    """Layers in a list that is never called; the second layer calls the first."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8, bias=False), Reusing(), nn.Sequential(nn.Linear(8, 4))])
        self.layers[1].other = (self.layers[0],)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Reusing(nn.Module):
    def forward(self, x):
        return self.other[0](x) * 2


def captured(model, inputs):
    document = observe(model, inputs)
    return document, document.cost, {module.path: index for index, module in enumerate(document.modules)}


def test_a_container_that_is_never_called_has_the_cost_of_its_submodules():
    document, cost, at = captured(Stack(), torch.randn(2, 8))
    totals = costing.module_totals(document, cost)
    assert cost.modules[at["layers"]].total == CostTotals()
    assert totals[at["layers"]] == totals[at[""]] == cost.forward
    assert totals[at["layers.0"]].macs == 2 * 2 * 8 * 8
    assert totals[at["layers.1"]].macs == 2 * 8 * 8


def test_totals_of_called_modules_agree_with_torch():
    model, inputs = Stack(), torch.randn(2, 8)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(inputs)
    document, cost, at = captured(model, inputs)
    totals = costing.module_totals(document, cost)
    for path in ("layers.1", "layers.2", "layers.2.0"):
        assert totals[at[path]].matrix_flops == sum(counter.get_flop_counts()[f"Stack.{path}"].values())


def test_labels_count_only_outermost_calls():
    document, cost, _ = captured(nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.ReLU()), torch.randn(1, 4))
    inside = costing.inside(document, cost, [(module.class_name,) for module in document.modules])
    assert inside["Sequential"] == cost.forward
    assert inside["Linear"].macs == 16
    assert inside["ReLU"].flops == 4


def test_the_total_of_a_call_includes_nested_calls():
    document, cost, _ = captured(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(1, 4))
    assert [sums.flops for sums in costing.per_call_total(document, cost)] == [40, 36, 4]


def test_parts_of_the_backward_pass_add_up():
    document = observe(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(1, 4), backward=True)
    cost = document.cost
    inner = [module.backward for module in cost.modules]
    assert costing.summed([*inner, costing.backward_outside(cost)]) == cost.backward
    phases = grouped(executed_kinds(document, cost), lambda row: row.phase)
    assert phases == {"forward": cost.forward, "backward": cost.backward}


@pytest.mark.parametrize("count", [0, 1, 7])
def test_times_equals_a_sum_over_equal_executions(count):
    _, cost, _ = captured(nn.Linear(4, 4), torch.randn(1, 4))
    assert costing.times(cost.kinds[0], count) == costing.summed([cost.forward] * count)


def test_without_a_backward_pass_its_cost_is_none():
    assert costing.backward_outside(observe(nn.ReLU(), torch.randn(2)).cost) is None
