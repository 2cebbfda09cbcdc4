"""The registry of formulas: known ops, unknown ops, and formulas registered by a user."""

from __future__ import annotations

import pytest
import torch
from counted import counted, executed
from versions import require

from assay.analysis.cost import CATEGORIES, cost_of, formulas, register, register_cost
from assay.analysis.cost.registry import formula_of
from assay.document.rows import Operand, OpKind, TensorType
from assay.errors import UsageError

COMMON = """
add add_ sub mul mul_ div pow sqrt rsqrt exp log sin cos tanh sigmoid relu relu_ gelu silu softmax _softmax where
eq ne lt le gt ge logical_not bitwise_and masked_fill masked_fill_ clamp maximum neg abs sum mean max min argmax
amax cumsum var std norm topk sort any all view reshape permute transpose unsqueeze squeeze expand cat stack
slice select split chunk unbind index index_put_ index_select gather scatter scatter_add_ index_add_ copy_ clone
contiguous to _to_copy zeros ones full arange empty zeros_like ones_like fill_ zero_ tril triu repeat
repeat_interleave flip roll pad constant_pad_nd linear matmul mm bmm addmm baddbmm einsum conv1d conv2d conv3d
conv_transpose2d convolution convolution_backward scaled_dot_product_attention lstm gru lstm_cell layer_norm
rms_norm group_norm batch_norm instance_norm native_layer_norm native_layer_norm_backward embedding embedding_bag
embedding_dense_backward max_pool2d avg_pool2d adaptive_avg_pool2d upsample_nearest2d upsample_bilinear2d
grid_sampler dropout native_dropout cross_entropy_loss nll_loss_forward mse_loss _foreach_add_ _foreach_mul_
_foreach_addcdiv_ _foreach_norm _fused_adamw_ rand randn bernoulli_ multinomial nonzero _local_scalar_dense
_softmax_backward_data gelu_backward threshold_backward cdist bilinear tensordot _grouped_mm _int_mm _scaled_mm
fft_rfft fft_irfft2 stft linalg_solve linalg_qr searchsorted _unique2 one_hot pixel_shuffle im2col col2im
"""


def _overloads_with_tensors() -> set[str]:
    schemas = torch._C._jit_get_all_schemas()
    return {
        one.name.removeprefix("aten::") for one in schemas if one.name.startswith("aten::") and "Tensor" in str(one)
    }


def test_every_common_op_has_a_formula() -> None:
    assert [name for name in COMMON.split() if formula_of(f"aten.{name}.default") is None] == []


def test_nearly_all_of_aten_has_a_formula() -> None:
    names = _overloads_with_tensors()
    known = {name for name in names if formula_of(f"aten.{name}.default")}
    assert len(known) / len(names) > 0.95, f"{len(known)} of {len(names)} names of aten have a formula"


def test_formulas_are_for_existing_ops_and_known_categories() -> None:
    require("torch", "2.13", "some of the ops with a formula")
    existing = {one.name for one in torch._C._jit_get_all_schemas()}
    named = {target.partition(".")[0] for target in formulas() if target.startswith("aten::")}
    assert named - existing == set()
    assert {formula.category for formula in formulas().values()} <= set(CATEGORIES)


def test_in_place_and_foreach_variants_use_the_plain_formula() -> None:
    plain = formula_of("aten.exp.default")
    assert plain is formula_of("aten.exp_.default") is formula_of("aten._foreach_exp_.default")
    assert formula_of("aten.__and__.Tensor") is not None


def test_the_cost_of_an_unknown_op_is_none_with_a_reason() -> None:
    tensor = Operand("x", TensorType((4, 4), "float32"))
    cost = cost_of(OpKind("", "somelib.mystery.default", {}, (tensor,), (tensor,)))
    assert (cost.macs, cost.matrix_flops, cost.pointwise_flops, cost.needed_flops) == (None, None, None, None)
    assert (cost.flops, cost.intensity) == (None, None)
    assert cost.category == "Custom"
    assert "no formula" in cost.unknown
    assert cost.bytes == 128


def test_a_formula_that_does_not_apply_gives_a_reason() -> None:
    tensor = Operand("qx", TensorType((1, 4, 8, 8), "quint8"))
    cost = cost_of(OpKind("", "quantized.conv2d.new", {}, (tensor,), (tensor,)))
    assert cost.macs is None
    assert "packed weight" in cost.unknown
    misfit = cost_of(OpKind("", "aten.mm.default", {}, (tensor,), (tensor,)))
    assert misfit.macs is None
    assert "aten.mm.default" in misfit.unknown


def test_ragged_tensors_are_unknown_not_negative() -> None:
    ragged = Operand("input", TensorType((3, -1, 8), "float32"))
    cost = cost_of(OpKind("", "aten.relu.default", {}, (ragged,), (ragged,)))
    assert cost.pointwise_flops is None
    assert "ragged" in cost.unknown
    assert cost.bytes == 0


def test_a_duplicate_is_rejected() -> None:
    with pytest.raises(ValueError, match="aten::mm already has a formula"):
        register("aten::mm", category="MatMul")(lambda kind: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="override=True"):
        register_cost("aten::mm")(lambda kind: 1)


@torch.library.custom_op("assaytests::product", mutates_args=(), schema="(Tensor a, Tensor b) -> Tensor")
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


@torch.library.custom_op("assaytests::doubled", mutates_args=(), schema="(Tensor a) -> Tensor")
def doubled(a: torch.Tensor) -> torch.Tensor:
    return a * 2


def test_a_custom_op_is_counted_once_it_is_registered() -> None:
    a, b = torch.randn(16, 64), torch.randn(64, 16)
    before = executed(torch.ops.assaytests.product, a, b)
    assert [cost.macs for _, cost in before] == [None]

    @register_cost(torch.ops.assaytests.product)
    def flops(kind: OpKind) -> int:
        rows, length = kind.inputs[0].type.shape
        return 2 * rows * length * kind.inputs[1].type.shape[1]

    cost = counted(product, a, b)
    assert (cost.macs, cost.matrix_flops) == (16_384, 32_768)
    with pytest.raises(ValueError, match="already"):
        register_cost("assaytests.product")(flops)

    register_cost("assaytests::product", override=True)(lambda kind: {"macs": 7, "pointwise_flops": 3})
    again = counted(product, a, b)
    assert (again.macs, again.matrix_flops, again.pointwise_flops) == (7, 14, 3)


@pytest.mark.parametrize(
    "target", ["assaynames::a", "assaynames.b", "assaynames.c.default", torch.ops.assaytests.doubled.default, doubled]
)
def test_targets_can_be_written_in_several_ways(target: object) -> None:
    register_cost(target, override=True)(lambda kind: {"pointwise_flops": 11})
    name = {"assaynames::a": "assaynames.a", "assaynames.b": "assaynames.b"}.get(str(target), str(target))
    dotted = "assaytests.doubled" if target is doubled else name
    tensor = Operand("x", TensorType((4, 4), "float32"))
    kind = OpKind("", dotted if dotted.endswith(".default") else f"{dotted}.default", {}, (tensor,), (tensor,))
    assert cost_of(kind).pointwise_flops == 11


def test_a_rule_that_returns_nonsense_raises_an_error() -> None:
    register_cost("assaynames::nonsense")(lambda kind: "many")  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="assaynames::nonsense"):
        cost_of(OpKind("", "assaynames.nonsense.default", {}, (), ()))


@pytest.mark.parametrize("target", ["", "nothing", "::", "a::"])
def test_an_invalid_target_is_rejected(target: str) -> None:
    with pytest.raises(ValueError, match="mylib::op"):
        register_cost(target)
