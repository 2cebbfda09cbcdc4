"""What happens inside calls: nested calls count once, and a container has what it holds."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from assay import observe
from assay.analysis.cost import totals as costing
from assay.analysis.executed import executed, grouped
from assay.document.cost import CostTotals


class Stack(nn.Module):
    """Layers in a list that is never called; the first is called by the second as well."""

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


def watched(model, inputs):
    document = observe(model, inputs)
    return document, document.cost, {module.path: index for index, module in enumerate(document.modules)}


def test_a_container_that_is_never_called_has_what_it_holds_once():
    document, cost, at = watched(Stack(), torch.randn(2, 8))
    totals = costing.module_totals(document, cost)
    assert cost.modules[at["layers"]].total == CostTotals()
    assert totals[at["layers"]] == totals[at[""]] == cost.forward
    assert totals[at["layers.0"]].macs == 2 * 2 * 8 * 8
    assert totals[at["layers.1"]].macs == 2 * 8 * 8


def test_totals_of_called_modules_are_those_of_torch():
    model, inputs = Stack(), torch.randn(2, 8)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(inputs)
    document, cost, at = watched(model, inputs)
    totals = costing.module_totals(document, cost)
    for path in ("layers.1", "layers.2", "layers.2.0"):
        assert totals[at[path]].matrix_flops == sum(counter.get_flop_counts()[f"Stack.{path}"].values())


def test_labels_count_the_outermost_call():
    document, cost, _ = watched(nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.ReLU()), torch.randn(1, 4))
    inside = costing.inside(document, cost, [(module.class_name,) for module in document.modules])
    assert inside["Sequential"] == cost.forward
    assert inside["Linear"].macs == 16
    assert inside["ReLU"].flops == 4


def test_calls_with_what_is_inside_them():
    document, cost, _ = watched(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(1, 4))
    assert [sums.flops for sums in costing.per_call_total(document, cost)] == [40, 36, 4]


def test_the_backward_pass_is_divided_without_rest():
    document = observe(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(1, 4), backward=True)
    cost = document.cost
    inner = [figures.backward for figures in cost.modules]
    assert costing.summed([*inner, costing.backward_outside(cost)]) == cost.backward
    phases = grouped(executed(document, cost), lambda row: row.phase)
    assert phases == {"forward": cost.forward, "backward": cost.backward}


@pytest.mark.parametrize("count", [0, 1, 7])
def test_times_is_a_sum_over_equal_executions(count):
    _, cost, _ = watched(nn.Linear(4, 4), torch.randn(1, 4))
    assert costing.times(cost.kinds[0], count) == costing.summed([cost.forward] * count)


def test_no_backward_pass_is_none():
    assert costing.backward_outside(observe(nn.ReLU(), torch.randn(2)).cost) is None
