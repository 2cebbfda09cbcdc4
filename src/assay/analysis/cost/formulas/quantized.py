"""Quantised ops. The shape of packed weights is not recorded, so it is inferred from input, result and `facts`.

Requantising takes 4 ops per output element: scale, round, clamp, shift.
"""

from __future__ import annotations

from assay.analysis.cost.bytes import Traffic, streamed
from assay.analysis.cost.categories import ACTIVATION, CONVOLUTION, ELEMENT_WISE, LINEAR, MATMUL, QUANTIZED
from assay.analysis.cost.formulas.convolutions import convolution_macs
from assay.analysis.cost.formulas.pointwise import per_element
from assay.analysis.cost.reading import first, numel, operand, optional, result, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import free, per_largest
from assay.analysis.cost.work import Uncountable, Work
from assay.document.rows import OpKind

REQUANTIZE = 4

LINEARS = """
linear linear_relu linear_leaky_relu linear_tanh linear_dynamic linear_relu_dynamic linear_dynamic_fp16
linear_relu_dynamic_fp16 linear_dynamic_fp16_unpacked_weight linear_with_input_q_dq_qweight_dq_output_fp32
linear_with_input_q_dq_qweight_dq_relu_output_fp32 sparse::qlinear sparse::qlinear_relu sparse::qlinear_dynamic
sparse::qlinear_relu_dynamic _quantized::linear _quantized::linear_dynamic aten::_wrapped_quantized_linear_prepacked
_quantized::wrapped_quantized_linear _quantized::_wrapped_quantized_linear_prepacked
_quantized::wrapped_fbgemm_linear_fp16_weight onednn::qlinear_pointwise onednn::linear_dynamic_fp16
onednn::linear_relu_dynamic_fp16
"""
CONVOLUTIONS = """
conv1d conv2d conv3d conv1d_relu conv2d_relu conv3d_relu conv2d_add conv2d_add_relu conv1d_dynamic
conv2d_dynamic conv3d_dynamic _quantized::conv2d _quantized::conv2d_relu _quantized::conv3d _quantized::conv3d_relu
"""
TRANSPOSED = """
conv_transpose1d conv_transpose2d conv_transpose3d conv_transpose1d_dynamic conv_transpose2d_dynamic
conv_transpose3d_dynamic _quantized::conv_transpose1d _quantized::conv_transpose2d
"""


def _assumed_weight(kind: OpKind) -> int:
    """Bytes of a packed linear weight: input features × output features, one byte each or two in fp16."""
    if "linear" not in kind.target:
        return 0
    return first(kind).shape[-1] * result(kind).shape[-1] * (2 if "fp16" in kind.target else 1)


def _with_packed_weight(kind: OpKind) -> Traffic:
    """The traffic of the recorded tensors plus that of the packed weight, which is not among them."""
    traffic = streamed(kind)
    if optional(kind, "weight", "W", "qw"):
        return traffic
    size = kind.facts.get("weight_bytes", kind.facts.get("weight_numel", _assumed_weight(kind)))
    return Traffic(traffic.read_parameters + size, traffic.read_activations, traffic.written)


@register(LINEARS, category=LINEAR, traffic=_with_packed_weight, namespace="quantized")
def linear(kind: OpKind) -> Work:
    """One MAC per output element and input feature; bias and requantising are 5 ops per output element."""
    return Work(result_numel(kind) * first(kind).shape[-1], (1 + REQUANTIZE) * result_numel(kind))


@register(CONVOLUTIONS, category=CONVOLUTION, traffic=_with_packed_weight, namespace="quantized")
def convolve(kind: OpKind) -> Work:
    """One MAC per output element and weight of one output channel; 5 pointwise ops per output element."""
    macs = result_numel(kind) * _weights_per_output(kind, kind.outputs[0].type.shape)
    return Work(macs, (1 + REQUANTIZE) * result_numel(kind))


@register(TRANSPOSED, category=CONVOLUTION, traffic=_with_packed_weight, namespace="quantized")
def convolve_transposed(kind: OpKind) -> Work:
    """One MAC per input element and weight of one input channel; 5 pointwise ops per output element."""
    weights = kind.facts.get("weight_numel")
    if weights is None:
        raise Uncountable("the shape of the packed weight is unknown")
    channels = first(kind).shape[1]
    return Work(numel(first(kind)) * weights // channels, (1 + REQUANTIZE) * result_numel(kind))


def _weights_per_output(kind: OpKind, shape: tuple[int, ...]) -> int:
    facts = kind.facts
    if "weight_numel" in facts:
        return facts["weight_numel"] // shape[1]
    if "in_channels_per_group" in facts and "kernel_numel" in facts:
        return facts["in_channels_per_group"] * facts["kernel_numel"]
    raise Uncountable("the shape of the packed weight is unknown")


@register(
    "onednn::qconv_pointwise onednn::qconv1d_pointwise onednn::qconv2d_pointwise onednn::qconv3d_pointwise",
    category=CONVOLUTION,
)
def convolve_pointwise(kind: OpKind) -> Work:
    """A convolution whose weight is a recorded tensor."""
    macs = convolution_macs(result(kind), operand(kind, "qw"))
    return Work(macs, (1 + REQUANTIZE) * result_numel(kind))


@register(
    "_weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros "
    "_dyn_quant_matmul_4bit quantized::int4mm_packed_weight_cpu",
    category=MATMUL,
)
def weight_only(kind: OpKind) -> Work:
    """One MAC per output element and input feature, and one scale per output element."""
    return Work(result_numel(kind) * first(kind).shape[-1], result_numel(kind))


QUANTIZES = """
quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic fake_quantize_per_tensor_affine
fake_quantize_per_channel_affine fake_quantize_per_tensor_affine_cachemask
fake_quantize_per_channel_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine
fused_moving_avg_obs_fake_quant _fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional
_choose_qparams_per_tensor choose_qparams_optimized _saturate_weight_to_fp16
"""
GRADIENTS = """
fake_quantize_per_tensor_affine_cachemask_backward fake_quantize_per_channel_affine_cachemask_backward
_fake_quantize_learnable_per_tensor_affine_backward _fake_quantize_learnable_per_channel_affine_backward
"""
SHAPED = """
q_per_channel_scales q_per_channel_zero_points _make_per_tensor_quantized_tensor
_make_per_channel_quantized_tensor fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
fbgemm_linear_quantize_weight _wrapped_linear_prepack
"""
PACKING = """
linear_prepack linear_prepack_fp16 linear_unpack linear_unpack_fp16 conv1d_prepack conv2d_prepack
conv3d_prepack conv_prepack conv1d_unpack conv2d_unpack conv3d_unpack conv_unpack conv_transpose1d_prepack
conv_transpose2d_prepack conv_transpose3d_prepack embedding_bag_prepack embedding_bag_unpack
embedding_bag_byte_prepack embedding_bag_byte_unpack embedding_bag_4bit_prepack embedding_bag_4bit_unpack
embedding_bag_2bit_prepack embedding_bag_2bit_unpack conv_transpose1d_unpack conv_transpose2d_unpack
conv_transpose3d_unpack make_quantized_cell_params make_quantized_cell_params_dynamic
make_quantized_cell_params_fp16 onednn::qlinear_prepack onednn::qconv_prepack onednn::linear_prepack_fp16
sparse::qlinear_prepack sparse::qlinear_unpack
"""

register(QUANTIZES, category=QUANTIZED)(per_largest(REQUANTIZE))
register("dequantize", category=QUANTIZED)(per_element(2))
register(GRADIENTS, category=QUANTIZED)(per_element(1))
register(SHAPED, category=QUANTIZED)(free)
register(PACKING, category=QUANTIZED, namespace="quantized")(free)

# Dequantising two inputs (2 ops each), the op itself (1), and requantising the result (4).
_BINARY = """
add mul add_relu mul_relu add_out mul_out add_relu_out mul_relu_out onednn::qadd onednn::qadd_relu onednn::qmul
_quantized::add
"""
_SCALAR = """
add_scalar mul_scalar add_scalar_relu mul_scalar_relu add_scalar_out mul_scalar_out add_scalar_relu_out
mul_scalar_relu_out
"""
register(_BINARY, category=ELEMENT_WISE, namespace="quantized")(per_element(5 + REQUANTIZE))
register(_SCALAR, category=ELEMENT_WISE, namespace="quantized")(per_element(1))
register(
    "relu6 clamp leaky_relu prelu threshold celu elu hardswish sigmoid",
    category=ACTIVATION,
    namespace="quantized",
)(per_element(2 + 4 + REQUANTIZE))
