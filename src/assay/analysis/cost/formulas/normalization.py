"""Normalisations and softmax: pointwise work alone, by elements of the input."""

from __future__ import annotations

from math import prod

from assay.analysis.cost.categories import ACTIVATION, NORMALIZATION
from assay.analysis.cost.reading import attribute, first, numel, operand, optional, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

STANDARDIZE = 6
"""Mean (1), variance (3), subtract and scale (2)."""
RMS = 3
"""Square, sum, scale."""
AFFINE_EVAL = 2
"""With fixed statistics a batch norm folds into one scale and one shift."""
SOFTMAX = 5
"""Largest, subtract, exponentiate, sum, divide."""
SOFTMAX_BACKWARD = 4
BACKWARD = 2
"""A backward is twice its forward."""


def _affine(kind: OpKind) -> int:
    """Scale and shift, each where it is there."""
    return (optional(kind, "weight") is not None) + (optional(kind, "bias") is not None)


def _standardized(kind: OpKind) -> int:
    return (STANDARDIZE + _affine(kind)) * numel(operand(kind, "input", "self", "qx"))


@register(
    "aten::layer_norm", "aten::native_layer_norm", "aten::group_norm", "aten::native_group_norm",
    "quantized::layer_norm", "quantized::group_norm", category=NORMALIZATION,
)  # fmt: skip
def standardize(kind: OpKind) -> Work:
    """Statistics of the input itself: 8 an element with scale and shift."""
    return Work(pointwise=_standardized(kind))


@register("aten::instance_norm", "quantized::instance_norm", category=NORMALIZATION)
def instance_norm(kind: OpKind) -> Work:
    """Statistics of each instance, or the running ones."""
    fixed = attribute(kind, "use_input_stats", True) is False
    return Work(pointwise=AFFINE_EVAL * numel(first(kind)) if fixed else _standardized(kind))


@register(
    "aten::batch_norm", "aten::native_batch_norm", "aten::_native_batch_norm_legit",
    "aten::cudnn_batch_norm", "aten::miopen_batch_norm", "aten::_batch_norm_impl_index",
    "aten::_native_batch_norm_legit_functional", category=NORMALIZATION,
)  # fmt: skip
def batch_norm(kind: OpKind) -> Work:
    """With fixed statistics 2 an element; in training it takes them first."""
    training = bool(attribute(kind, "training", attribute(kind, "train", False)))
    return Work(pointwise=_standardized(kind) if training else AFFINE_EVAL * numel(operand(kind, "input")))


@register(
    "aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update",
    "aten::quantized_batch_norm", "aten::batch_norm_elemt", "quantized::batch_norm",
    "quantized::batch_norm1d", "quantized::batch_norm2d", "quantized::batch_norm3d",
    "onednn::qbatch_norm2d", category=NORMALIZATION,
)  # fmt: skip
def batch_norm_fixed(kind: OpKind) -> Work:
    """One scale and one shift."""
    return Work(pointwise=AFFINE_EVAL * numel(first(kind)))


@register(
    "quantized::batch_norm_relu", "quantized::batch_norm1d_relu", "quantized::batch_norm2d_relu",
    "quantized::batch_norm3d_relu", category=NORMALIZATION,
)  # fmt: skip
def batch_norm_relu(kind: OpKind) -> Work:
    """One scale, one shift, one comparison."""
    return Work(pointwise=(AFFINE_EVAL + 1) * numel(first(kind)))


@register("aten::_batch_norm_with_update", "aten::_batch_norm_with_update_functional", category=NORMALIZATION)
def batch_norm_training(kind: OpKind) -> Work:
    """Takes the statistics first."""
    return Work(pointwise=_standardized(kind))


@register("aten::batch_norm_stats", "aten::batch_norm_update_stats", category=NORMALIZATION)
def batch_statistics(kind: OpKind) -> Work:
    """Mean and variance alone."""
    return Work(pointwise=4 * numel(operand(kind, "input")))


@register("aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts", category=NORMALIZATION)
def gathered_statistics(kind: OpKind) -> Work:
    """Statistics of several devices merged."""
    return Work(pointwise=4 * numel(operand(kind, "mean")))


@register("aten::rms_norm", "aten::_fused_rms_norm", category=NORMALIZATION)
def rms_norm(kind: OpKind) -> Work:
    """4 an element with its scale."""
    return Work(pointwise=(RMS + _affine(kind)) * numel(first(kind)))


@register("aten::_fused_rms_norm_backward", category=NORMALIZATION)
def rms_norm_backward(kind: OpKind) -> Work:
    """Twice the forward."""
    return Work(pointwise=BACKWARD * (RMS + 1) * numel(operand(kind, "input")))


@register(
    "aten::native_layer_norm_backward", "aten::native_group_norm_backward",
    "aten::native_batch_norm_backward", "aten::cudnn_batch_norm_backward",
    "aten::miopen_batch_norm_backward", "aten::batch_norm_backward",
    "aten::_batch_norm_impl_index_backward", "aten::batch_norm_backward_elemt",
    "aten::batch_norm_backward_reduce", category=NORMALIZATION,
)  # fmt: skip
def standardize_backward(kind: OpKind) -> Work:
    """Twice a forward with scale and shift."""
    return Work(pointwise=BACKWARD * (STANDARDIZE + 2) * numel(operand(kind, "input")))


@register(
    "aten::softmax", "aten::_softmax", "aten::log_softmax", "aten::_log_softmax",
    "aten::special_softmax", "aten::special_log_softmax", "aten::_safe_softmax",
    "aten::_masked_softmax", "quantized::softmax", "aten::_nested_tensor_softmax_with_shape",
    category=ACTIVATION,
)  # fmt: skip
def softmax(kind: OpKind) -> Work:
    """5 an element."""
    return Work(pointwise=SOFTMAX * result_numel(kind))


@register(
    "aten::_softmax_backward_data", "aten::_log_softmax_backward_data",
    "aten::_masked_softmax_backward", category=ACTIVATION,
)  # fmt: skip
def softmax_backward(kind: OpKind) -> Work:
    """4 an element."""
    return Work(pointwise=SOFTMAX_BACKWARD * result_numel(kind))


@register("aten::_weight_norm", "aten::_weight_norm_interface", category=NORMALIZATION)
def weight_norm(kind: OpKind) -> Work:
    """A norm a row (2 an element), and the scale."""
    return Work(pointwise=3 * numel(operand(kind, "v")))


@register(
    "aten::_weight_norm_interface_backward", "aten::_weight_norm_differentiable_backward",
    category=NORMALIZATION,
)  # fmt: skip
def weight_norm_backward(kind: OpKind) -> Work:
    """Twice the forward."""
    return Work(pointwise=BACKWARD * 3 * numel(operand(kind, "saved_v")))


@register("aten::embedding_renorm", "aten::_no_grad_embedding_renorm_", category=NORMALIZATION)
def embedding_renorm(kind: OpKind) -> Work:
    """A norm and a scale for each row named."""
    rows = prod(operand(kind, "indices", "input").shape)
    return Work(pointwise=3 * rows * operand(kind, "self", "weight").shape[-1])


@register(
    "aten::dropout", "aten::alpha_dropout", "aten::feature_dropout", "aten::feature_alpha_dropout",
    "aten::native_dropout", "aten::_fused_dropout", "quantized::dropout", category=ACTIVATION,
)  # fmt: skip
def dropout(kind: OpKind) -> Work:
    """A mask and a scale in training; nothing otherwise."""
    active = attribute(kind, "train", True) and attribute(kind, "training", True)
    return Work(pointwise=2 * result_numel(kind) if active else 0)
