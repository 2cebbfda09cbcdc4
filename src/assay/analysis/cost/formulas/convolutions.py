"""Convolutions. MACs = output elements × weights per output element, or the same of the input if transposed."""

from __future__ import annotations

from math import prod

from assay.analysis.cost.categories import CONVOLUTION
from assay.analysis.cost.reading import bias_adds, mask, numel, operand, optional, result, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.work import Work, contraction
from assay.document.rows import OpKind, TensorType


def convolution_macs(grid: TensorType, weight: TensorType) -> int:
    """One MAC per element of the grid and weight of one channel."""
    return numel(grid) * prod(weight.shape[1:])


def _input(kind: OpKind) -> TensorType:
    return operand(kind, "input", "self", "X", "qx")


def _weight(kind: OpKind) -> TensorType:
    return operand(kind, "weight", "W", "qw")


@register(
    "conv1d conv2d conv3d _convolution_mode cudnn_convolution miopen_convolution miopen_depthwise_convolution "
    "mkldnn_convolution thnn_conv2d _slow_conv2d_forward slow_conv_dilated2d slow_conv_dilated3d slow_conv3d "
    "slow_conv3d_forward conv_depthwise3d _conv_depthwise2d _nnpack_spatial_convolution _mps_convolution "
    "mkldnn::_convolution_pointwise mkldnn::_convolution_pointwise_",
    category=CONVOLUTION,
)
def convolve(kind: OpKind) -> Work:
    """One MAC per output element and weight of one output channel (fewer weights with groups)."""
    macs = convolution_macs(result(kind), _weight(kind))
    return contraction(macs, result(kind).dtype, pointwise=bias_adds(kind, "bias", "B"))


@register(
    "conv_transpose1d conv_transpose2d conv_transpose3d slow_conv_transpose2d slow_conv_transpose3d "
    "cudnn_convolution_transpose miopen_convolution_transpose _mps_convolution_transpose "
    "mkldnn::_convolution_transpose_pointwise",
    category=CONVOLUTION,
)
def convolve_transposed(kind: OpKind) -> Work:
    """One MAC per input element and weight of one input channel."""
    macs = convolution_macs(_input(kind), _weight(kind))
    return contraction(macs, result(kind).dtype, pointwise=bias_adds(kind, "bias", "B"))


@register("convolution _convolution convolution_overrideable", category=CONVOLUTION)
def convolve_any(kind: OpKind) -> Work:
    """A plain or transposed convolution, depending on the `transposed` attribute."""
    return convolve_transposed(kind) if kind.attributes.get("transposed") else convolve(kind)


@register(
    "cudnn_convolution_relu miopen_convolution_relu cudnn_convolution_add_relu miopen_convolution_add_relu",
    category=CONVOLUTION,
)
def convolve_relu(kind: OpKind) -> Work:
    """A convolution, one op per output element for the ReLU, and one if another tensor is added."""
    return convolve(kind) + Work(pointwise=result_numel(kind) * (2 if optional(kind, "z") else 1))


@register("conv_tbc", category=CONVOLUTION)
def convolve_tbc(kind: OpKind) -> Work:
    """Inputs have time as the first dimension; the weight is kernel x in x out."""
    weight = _weight(kind)
    macs = result_numel(kind) * prod(weight.shape[:2])
    return contraction(macs, weight.dtype, pointwise=bias_adds(kind, "bias", "B"))


@register("convolution_backward convolution_backward_overrideable mps_convolution_backward", category=CONVOLUTION)
def convolve_backward(kind: OpKind) -> Work:
    """As many MACs as the forward op for each gradient of input and weight; one addition per element for the bias."""
    gradients, grad = mask(kind), operand(kind, "grad_output")
    grid = _input(kind) if kind.attributes.get("transposed") else grad
    macs = convolution_macs(grid, _weight(kind)) * sum(gradients[:2])
    return contraction(macs, grad.dtype, pointwise=numel(grad) * gradients[2])


@register("_slow_conv2d_backward", category=CONVOLUTION)
def convolve_slow_backward(kind: OpKind) -> Work:
    """Like `convolve_backward`; the overload without `output_mask` computes all three gradients."""
    gradients = mask(kind) if "output_mask" in kind.attributes else (True, True, True)
    grad = operand(kind, "grad_output")
    macs = convolution_macs(grad, _weight(kind)) * sum(gradients[:2])
    return contraction(macs, grad.dtype, pointwise=numel(grad) * gradients[2])


@register("mps_convolution_transpose_backward", category=CONVOLUTION)
def convolve_transposed_backward(kind: OpKind) -> Work:
    """As many MACs as the forward op for each gradient of input and weight."""
    return contraction(convolution_macs(_input(kind), _weight(kind)) * sum(mask(kind)[:2]), _input(kind).dtype)


@register("conv_tbc_backward", category=CONVOLUTION)
def convolve_tbc_backward(kind: OpKind) -> Work:
    """Twice the MACs of the forward op, and one addition per element for the bias."""
    grad, weight = operand(kind, "self"), _weight(kind)
    return contraction(2 * numel(grad) * prod(weight.shape[:2]), weight.dtype, pointwise=numel(grad))


@register("im2col col2im", category=CONVOLUTION)
def unfold(kind: OpKind) -> Work:
    """No arithmetic for `im2col`; one addition per patch element for `col2im`."""
    folding = kind.target.startswith("aten.col2im")
    return Work(pointwise=numel(operand(kind, "self")) if folding else 0)
