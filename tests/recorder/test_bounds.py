"""Sizes that depend on data: bounded without data, and the cost with data is inside the stated range."""

from __future__ import annotations

import pytest
import torch
from models.hard import CASES
from torch import nn
from torch.nn.functional import one_hot

import assay

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS, WIDTH, EXPERTS, CHOSEN = 6, 8, 4, 2
OUTSIDE = ROWS * WIDTH * EXPERTS + ROWS * WIDTH * WIDTH
"""MACs of the router and the output layer."""
ONE_ROW = WIDTH * WIDTH
"""MACs of one row in one expert."""


class Mixture(nn.Module):
    """A router, experts in a loop, and an output layer."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(EXPERTS))
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        weights, chosen = torch.topk(self.router(x).softmax(-1), CHOSEN, dim=-1)
        return self.output(self.mix(x, weights, chosen))


class Equal(Mixture):
    def mix(self, x, weights, chosen):
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            if rows.numel():
                result.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
        return result


class Hits(Mixture):
    def mix(self, x, weights, chosen):
        result = torch.zeros_like(x)
        mask = one_hot(chosen, num_classes=EXPERTS + 1).permute(2, 1, 0)
        for number in torch.greater(mask.sum((-1, -2)), 0).nonzero():
            if number[0] == EXPERTS:  # a place that no row chooses
                continue
            places, rows = torch.where(mask[number[0]])
            result = result.index_add(0, rows, self.experts[number](x[rows]) * weights[rows, places, None])
        return result


class AllAtOnce(Mixture):
    def mix(self, x, weights, chosen):
        result = torch.zeros_like(x)
        masks = chosen.unsqueeze(-1) == torch.arange(EXPERTS)
        for number, expert in enumerate(self.experts):
            rows, places = masks[..., number].nonzero(as_tuple=True)
            result.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
        return result


class Masks(Mixture):
    def mix(self, x, weights, chosen):
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mask = chosen == number
            rows = mask.any(-1)
            if rows.any():
                result[rows] += expert(x[rows]) * (weights * mask).sum(-1)[rows, None]
        return result


class Flat(Mixture):
    def mix(self, x, weights, chosen):
        repeated, flat = x.repeat_interleave(CHOSEN, 0), chosen.view(-1)
        result = torch.zeros_like(repeated)
        for number, expert in enumerate(self.experts):
            result[flat == number] = expert(repeated[flat == number])
        return (result.view(ROWS, CHOSEN, WIDTH) * weights[..., None]).sum(1)


STYLES = [Equal, Hits, AllAtOnce, Masks, Flat]


def routings():
    """Inputs that are routed alike, and inputs that are routed differently."""
    torch.manual_seed(0)
    return [torch.ones(ROWS, WIDTH), *(3 * torch.randn(ROWS, WIDTH) for _ in range(4))]


@pytest.mark.parametrize("style", STYLES)
def test_an_expert_gets_every_row_at_most_once(style):
    cost = assay.observe(style().eval(), (torch.randn(ROWS, WIDTH),), mode="meta").cost
    assert cost.forward.macs == OUTSIDE + EXPERTS * ROWS * ONE_ROW
    assert cost.least.macs == OUTSIDE


@pytest.mark.parametrize("style", STYLES)
def test_every_routing_costs_something_inside_the_range(style):
    model = style().eval()
    cost = assay.observe(model, (torch.randn(ROWS, WIDTH),), mode="meta").cost
    for x in routings():
        real = assay.observe(model, (x,), mode="real").cost
        assert real.least is None
        assert real.forward.macs == OUTSIDE + CHOSEN * ROWS * ONE_ROW
        for figure in ("macs", "flops", "needed_flops"):  # torch adds a view to an assignment of a single row
            assert getattr(cost.least, figure) <= getattr(real.forward, figure) <= getattr(cost.forward, figure)


def test_choices_that_are_overwritten_are_not_trusted():
    class Overwritten(Mixture):
        def mix(self, x, weights, chosen):
            chosen.fill_(0)
            rows, _ = torch.where(chosen == 0)
            return self.experts[0](x[rows])[:ROWS]

    model = Overwritten().eval()
    most, real = (assay.observe(model, (torch.ones(ROWS, WIDTH),), mode=mode).cost for mode in ("meta", "real"))
    assert real.forward.macs == OUTSIDE + CHOSEN * ROWS * ONE_ROW
    assert most.forward.macs == real.forward.macs


def test_choices_compared_with_a_whole_tensor_are_not_trusted():
    class Compared(Mixture):
        def mix(self, x, weights, chosen):
            rows, _ = torch.where(chosen == chosen.clone())
            return self.experts[0](x[rows])[:ROWS]

    model = Compared().eval()
    most, real = (assay.observe(model, (torch.ones(ROWS, WIDTH),), mode=mode).cost for mode in ("meta", "real"))
    assert most.forward.macs == real.forward.macs == OUTSIDE + CHOSEN * ROWS * ONE_ROW


def test_a_transformers_mixture_with_a_loop_is_inside_the_range():
    transformers = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=32,
    )
    config._experts_implementation = "eager"
    model = transformers.MixtralForCausalLM(config).eval()
    torch.manual_seed(0)
    inputs = [torch.zeros(2, 5, dtype=torch.long), *(torch.randint(0, 50, (2, 5)) for _ in range(2))]
    cost = assay.observe(model, {"input_ids": inputs[0]}, mode="meta").cost
    one_row = 3 * 16 * 24
    assert cost.forward.macs - cost.least.macs == 2 * 4 * 10 * one_row
    for ids in inputs:
        real = assay.observe(model, {"input_ids": ids}, mode="real").cost.forward
        assert real.macs == cost.least.macs + 2 * 2 * 10 * one_row
        assert cost.least.flops <= real.flops <= cost.forward.flops


@pytest.mark.parametrize("name", ["boolean_mask", "in_place", "expert_loop"])
def test_hard_cases_with_masks_are_inside_the_range(name):
    model, inputs = CASES[name]()
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    cost = assay.observe(model, arguments, mode="meta").cost
    real = assay.observe(model, arguments, mode="real").cost.forward
    least = cost.least or cost.forward
    assert least.macs <= real.macs <= cost.forward.macs
