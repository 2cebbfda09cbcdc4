"""Nested tensors, strided and jagged: recorded completely, with the work of their components run one by one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import gelu, scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode
from versions import require

import assay
from assay.document.document import Document

LENGTHS = (3, 5, 2)
WIDTH = 8

pytestmark = pytest.mark.filterwarnings("ignore")


def pieces() -> list[torch.Tensor]:
    return [torch.randn(length, WIDTH) for length in LENGTHS]


def nested(tensors: list[torch.Tensor], layout: torch.layout) -> torch.Tensor:
    return torch.nested.as_nested_tensor(tensors, layout=layout)


class Mixer(nn.Module):
    """Linear, norm, activation, residual, attention by hand and softmax on whatever tensor it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(WIDTH, 12)
        self.norm = nn.LayerNorm(12)
        self.back = nn.Linear(12, 12, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.wide(x))
        y = gelu(self.back(y)) + y
        return torch.softmax(y, -1) * y


class Scores(nn.Module):
    """A product of two tensors with the ragged length."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.matmul(x, x.transpose(1, 2)), -1)


class Heads(nn.Module):
    """Attention with two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(x).view(x.size(0), -1, 2, WIDTH // 2).transpose(1, 2)
        if heads.layout is torch.strided:  # torch requires it of nested tensors, and forbids it for jagged ones
            heads = heads.contiguous()
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(heads, heads, heads)


class Inside(nn.Module):
    """Builds the nested tensor itself and pads the result."""

    def __init__(self, body: nn.Module, layout: torch.layout) -> None:
        super().__init__()
        self.body, self.layout = body, layout

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return torch.nested.to_padded_tensor(self.body(nested(list(tensors), self.layout)), 0.0)


def observed(model: nn.Module, inputs: Any, **options: Any) -> Document:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return assay.observe(model.eval(), inputs, **options)


def flops_one_by_one(model: nn.Module, tensors: list[torch.Tensor]) -> int:
    """The FLOPs of the model on each plain tensor, as a batch of one, added up."""
    return sum(observed(model, (tensor[None],)).cost.forward.flops for tensor in tensors)


def matrix_flops_by_torch(call: Callable[..., Any], tensors: list[torch.Tensor]) -> int:
    """Torch's own count of the matrix FLOPs of the same plain calls."""
    with FlopCounterMode(display=False) as counter:
        for tensor in tensors:
            call(tensor[None])
    return counter.get_total_flops()


CASES = [
    (Mixer, torch.strided),
    (Mixer, torch.jagged),
    (Scores, torch.strided),
    (Heads, torch.strided),
    (Heads, torch.jagged),
]


@pytest.mark.parametrize("mode", ["auto", "meta"])
@pytest.mark.parametrize(("build", "layout"), CASES)
def test_a_nested_input_costs_what_its_components_cost(
    build: Callable[[], nn.Module], layout: torch.layout, mode: str
) -> None:
    if layout is torch.jagged:
        require("torch", "2.6", "recording every op of jagged nested tensors")
    model, tensors = build(), pieces()
    document = observed(model, (nested(tensors, layout),), mode=mode)
    assert document.complete
    assert document.run.mode == ("real" if mode == "auto" else mode)
    assert document.cost.coverage == 1
    assert document.cost.unknown == []
    assert document.cost.forward.matrix_flops == matrix_flops_by_torch(model, tensors)
    if (build, layout) != (Heads, torch.jagged):  # torch computes lengths there, which adds a few integer ops
        assert document.cost.forward.flops == flops_one_by_one(model, tensors)


@pytest.mark.parametrize("mode", ["auto", "meta"])
@pytest.mark.parametrize(("build", "layout"), CASES)
def test_a_nested_tensor_made_inside_forward_is_counted(
    build: Callable[[], nn.Module], layout: torch.layout, mode: str
) -> None:
    if layout is torch.jagged:
        require("torch", "2.6", "recording every op of jagged nested tensors")
    model, tensors = build(), pieces()
    document = observed(Inside(model, layout), tuple(tensors), mode=mode)
    assert document.complete
    assert document.run.mode == ("real" if mode == "auto" else mode)
    assert document.cost.coverage == 1
    assert document.cost.forward.matrix_flops == matrix_flops_by_torch(model, tensors)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_types_hold_the_components_and_storages_the_stored_bytes(layout: torch.layout) -> None:
    document = observed(Mixer(), (nested(pieces(), layout),))
    (given,) = document.run.inputs
    assert given.type.shape == (3, -1, WIDTH)
    assert given.type.components == tuple((length, WIDTH) for length in LENGTHS)
    (call,) = [call for call in document.calls if document.modules[call.module].path == "wide"]
    assert call.inputs == (given.type,)
    assert call.outputs[0].components == tuple((length, 12) for length in LENGTHS)
    linear = next(op for op in document.ops if "linear" in document.kinds[op.kind].target)
    assert [document.storages[index].bytes for index in linear.writes] == [sum(LENGTHS) * 12 * 4]
    cost = document.cost.kinds[linear.kind]
    assert (cost.read_activations, cost.written) == (sum(LENGTHS) * WIDTH * 4, sum(LENGTHS) * 12 * 4)


def encoder() -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()


def padded() -> tuple[tuple[torch.Tensor], dict[str, torch.Tensor]]:
    mask = torch.zeros(3, 5, dtype=torch.bool)
    mask[0, 3:] = True
    mask[2, 2:] = True
    return (torch.randn(3, 5, 16),), {"src_key_padding_mask": mask}


def test_an_encoder_with_a_padding_mask_counts_the_tokens_that_are_left() -> None:
    model = encoder()
    document = observed(model, padded())
    assert document.complete
    assert document.cost.coverage == 1
    layers = [kind for kind in document.kinds if "_transformer_encoder_layer_fwd" in kind.target]
    assert layers[0].inputs[0].type.components == tuple((length, 16) for length in LENGTHS)
    # In training mode without dropout, torch runs the same layers as separate ops, which its counter knows.
    by_torch = matrix_flops_by_torch(without_fast_path(model), [torch.randn(length, 16) for length in LENGTHS])
    assert document.cost.forward.matrix_flops == by_torch


def without_fast_path(model: nn.Module) -> Callable[[torch.Tensor], Any]:
    def call(tensor: torch.Tensor) -> Any:
        with sdpa_kernel(SDPBackend.MATH):
            return model.train()(tensor)

    return call


@pytest.mark.parametrize("mode", ["meta", "auto"])
def test_an_encoder_with_a_padding_mask_is_left_as_it_was(mode: str) -> None:
    model, (args, kwargs) = encoder(), padded()
    with torch.no_grad():
        before = model(*args, **kwargs)
    observed(model, (args, kwargs), mode=mode)
    with torch.no_grad():
        torch.testing.assert_close(model(*args, **kwargs), before)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_input_keeps_its_values_in_a_pass_without_data(layout: torch.layout) -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(0)

    tensors = pieces()
    given = nested([tensor.clone() for tensor in tensors], layout)
    observed(Scaled(), (given,), mode="meta")
    for component, tensor in zip(given.unbind(), tensors, strict=True):
        assert torch.equal(component, tensor)
