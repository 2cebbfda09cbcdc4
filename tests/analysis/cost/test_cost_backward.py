"""Backward passes: contractions cost twice the forward, and the cost of every op is known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from counted import Dispatched, added, trained
from torch import nn

from assay.analysis.cost import KindCost, cost_of
from assay.document.rows import Operand, OpKind, TensorType


def summed(kinds: list[OpKind]) -> KindCost:
    costs = [cost_of(kind) for kind in kinds]
    unknown = [f"{kind.target}: {cost.unknown}" for kind, cost in zip(kinds, costs, strict=True) if cost.unknown]
    assert not unknown, unknown
    return added(costs)


def test_a_training_step_of_an_mlp_costs_three_forward_passes() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    forward, backward = trained(model, torch.randn(6, 8, requires_grad=True))
    assert summed(forward).macs == 6 * (8 * 16 + 16 * 4)
    assert summed(backward).macs == 2 * summed(forward).macs


def test_the_first_layer_needs_no_gradient_of_the_data() -> None:
    forward, backward = trained(nn.Linear(8, 16), torch.randn(6, 8))
    assert summed(backward).macs == summed(forward).macs == 6 * 8 * 16


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("needs_input", [False, True])
def test_each_gradient_of_a_convolution_costs_one_forward_pass(transposed: bool, needs_input: bool) -> None:
    layer = (nn.ConvTranspose2d if transposed else nn.Conv2d)(4, 6, 3, 2)
    forward, backward = trained(layer, torch.randn(2, 4, 9, 9, requires_grad=needs_input))
    assert summed(backward).macs == (2 if needs_input else 1) * summed(forward).macs > 0


def test_the_output_mask_selects_the_gradients() -> None:
    operands = tuple(
        Operand(name, TensorType(shape, "float32"))
        for name, shape in {"grad_output": (2, 6, 5, 5), "input": (2, 4, 7, 7), "weight": (6, 4, 3, 3)}.items()
    )
    forward = 2 * 6 * 25 * 4 * 9
    for mask in ([True, True, False], [False, True, True], [False, False, True]):
        attributes: dict[str, Any] = {"transposed": False, "output_mask": mask}
        cost = cost_of(OpKind("", "aten.convolution_backward.default", attributes, operands, ()))
        assert cost.macs == sum(mask[:2]) * forward
        assert cost.pointwise_flops == mask[2] * 2 * 6 * 25


def test_fused_attention_backward_is_five_products() -> None:
    q = torch.randn(2, 4, 8, 16, requires_grad=True)

    class Attend(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(x, x, x)

    forward, backward = trained(Attend(), q)
    assert summed(forward).macs == 2 * (2 * 4 * 8 * 8 * 16)
    assert summed(backward).macs == 5 * (2 * 4 * 8 * 8 * 16)


class Everything(nn.Module):
    """Layers whose backward passes have their own kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.norm, self.rms, self.groups = nn.LayerNorm(8), nn.RMSNorm(8), nn.GroupNorm(2, 8)
        self.batch, self.conv = nn.BatchNorm1d(8), nn.Conv1d(8, 8, 3, padding=1)
        self.lstm, self.gru = nn.LSTM(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)
        self.activations = nn.ModuleList(
            cls() for cls in (
                nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.Hardsigmoid,
                nn.Hardtanh, nn.Softplus, nn.Mish, nn.LogSigmoid, nn.PReLU, nn.CELU, nn.SELU, nn.Dropout,
            )
        )  # fmt: skip

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.rms(self.norm(self.words(tokens)))
        for activation in self.activations:
            x = activation(x)
        x = self.gru(self.lstm(x)[0])[0]
        x = self.conv(self.batch(self.groups(x.transpose(1, 2))))
        image = F.max_pool2d(F.interpolate(x[:, None], scale_factor=2, mode="bilinear"), 2)
        image = F.avg_pool2d(F.adaptive_avg_pool2d(image, (6, 6)), 2) + F.adaptive_max_pool2d(image, 3)
        image = F.pad(F.pad(image, (1, 1, 1, 1), mode="reflect"), (1, 1), value=0.5)
        scores = torch.cat([image.flatten(1), x.mean((1, 2), keepdim=True).flatten(1)], 1)
        scores = scores.softmax(-1).log_softmax(-1) + scores.cumsum(-1) + scores.var(-1, keepdim=True)
        loss = F.cross_entropy(scores, torch.arange(len(scores))) + F.mse_loss(scores, scores.detach() + 1)
        loss = loss + F.smooth_l1_loss(scores, torch.zeros_like(scores)) + scores.norm() + scores.logsumexp(-1).sum()
        loss = loss + F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))
        return loss + scores.gather(1, torch.zeros(len(scores), 1, dtype=torch.long)).sum() + scores.amax()


def test_every_op_of_a_varied_training_step_is_known() -> None:
    forward, backward = trained(Everything(), torch.randint(0, 20, (3, 8)))
    assert len(backward) > 60
    assert summed(backward).macs > summed(forward).macs > 0


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_optimizer_steps_are_known(optimizer: Any, fused: bool) -> None:
    model = nn.Linear(4, 4)
    step = optimizer(model.parameters(), lr=0.1, fused=fused or None, foreach=not fused or None)
    model(torch.randn(2, 4)).sum().backward()
    with Dispatched() as recorded:
        step.step()
    assert summed(recorded.kinds).pointwise_flops > 0
