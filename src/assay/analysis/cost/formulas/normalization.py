"""Normalisations and softmax: pointwise ops only, a fixed number per element."""

from __future__ import annotations

from math import prod

from assay.analysis.cost.categories import ACTIVATION, NORMALIZATION
from assay.analysis.cost.reading import attribute, first, numel, operand, optional, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import per_operand, per_result
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

STANDARDIZE = 6
"""Ops per element: mean (1), variance (3), subtract and scale (2)."""
RMS = 3
"""Ops per element: square, sum, scale."""
AFFINE_EVAL = 2
"""Ops per element with fixed statistics, where a batch norm is one scale and one shift."""
SOFTMAX = 5
"""Ops per element: maximum, subtract, exponentiate, sum, divide."""
SOFTMAX_BACKWARD = 4
STATISTICS = 4
"""Ops per element for mean and variance only."""
WEIGHT_NORM = 3
"""Ops per element: one norm per row (2), and the scale (1)."""
BACKWARD = 2
"""The backward pass costs this many times the forward pass."""


def _affine(kind: OpKind) -> int:
    """Ops per element for scale and shift, each if present."""
    return (optional(kind, "weight") is not None) + (optional(kind, "bias") is not None)


def _standardized(kind: OpKind) -> int:
    return (STANDARDIZE + _affine(kind)) * numel(operand(kind, "input", "self", "qx"))


@register(
    "layer_norm native_layer_norm group_norm native_group_norm quantized::layer_norm quantized::group_norm "
    "_batch_norm_with_update _batch_norm_with_update_functional",
    category=NORMALIZATION,
)
def standardize(kind: OpKind) -> Work:
    """6 ops per element with statistics of the input itself, 8 with scale and shift."""
    return Work(pointwise=_standardized(kind))


@register("instance_norm quantized::instance_norm", category=NORMALIZATION)
def instance_norm(kind: OpKind) -> Work:
    """Like `standardize` with statistics per instance; 2 ops per element with running statistics."""
    fixed = attribute(kind, "use_input_stats", True) is False
    return Work(pointwise=AFFINE_EVAL * numel(first(kind)) if fixed else _standardized(kind))


@register(
    "batch_norm native_batch_norm _native_batch_norm_legit cudnn_batch_norm miopen_batch_norm "
    "_batch_norm_impl_index _native_batch_norm_legit_functional",
    category=NORMALIZATION,
)
def batch_norm(kind: OpKind) -> Work:
    """2 ops per element with fixed statistics; like `standardize` in training, which computes them first."""
    training = bool(attribute(kind, "training", attribute(kind, "train", False)))
    return Work(pointwise=_standardized(kind) if training else AFFINE_EVAL * numel(operand(kind, "input")))


register(
    "_native_batch_norm_legit_no_training _batch_norm_no_update quantized_batch_norm batch_norm_elemt "
    "quantized::batch_norm quantized::batch_norm1d quantized::batch_norm2d quantized::batch_norm3d "
    "onednn::qbatch_norm2d",
    category=NORMALIZATION,
)(per_operand(AFFINE_EVAL))
register(
    "quantized::batch_norm_relu quantized::batch_norm1d_relu quantized::batch_norm2d_relu "
    "quantized::batch_norm3d_relu",
    category=NORMALIZATION,
)(per_operand(AFFINE_EVAL + 1))
register("batch_norm_stats batch_norm_update_stats", category=NORMALIZATION)(per_operand(STATISTICS, "input"))
register("batch_norm_gather_stats batch_norm_gather_stats_with_counts", category=NORMALIZATION)(
    per_operand(STATISTICS, "mean")
)


@register("rms_norm _fused_rms_norm", category=NORMALIZATION)
def rms_norm(kind: OpKind) -> Work:
    """3 ops per element, 4 with a scale."""
    return Work(pointwise=(RMS + _affine(kind)) * numel(first(kind)))


register("_fused_rms_norm_backward", category=NORMALIZATION)(per_operand(BACKWARD * (RMS + 1), "input"))
register(
    "native_layer_norm_backward native_group_norm_backward native_batch_norm_backward cudnn_batch_norm_backward "
    "miopen_batch_norm_backward batch_norm_backward _batch_norm_impl_index_backward batch_norm_backward_elemt "
    "batch_norm_backward_reduce",
    category=NORMALIZATION,
)(per_operand(BACKWARD * (STANDARDIZE + 2), "input"))
register(
    "softmax _softmax log_softmax _log_softmax special_softmax special_log_softmax _safe_softmax _masked_softmax "
    "quantized::softmax _nested_tensor_softmax_with_shape",
    category=ACTIVATION,
)(per_result(SOFTMAX))
register("_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward", category=ACTIVATION)(
    per_result(SOFTMAX_BACKWARD)
)
register("_weight_norm _weight_norm_interface", category=NORMALIZATION)(per_operand(WEIGHT_NORM, "v"))
register("_weight_norm_interface_backward _weight_norm_differentiable_backward", category=NORMALIZATION)(
    per_operand(BACKWARD * WEIGHT_NORM, "saved_v")
)


@register("embedding_renorm _no_grad_embedding_renorm_", category=NORMALIZATION)
def embedding_renorm(kind: OpKind) -> Work:
    """One norm and one scale per selected row: 3 ops per element."""
    rows = prod(operand(kind, "indices", "input").shape)
    return Work(pointwise=3 * rows * operand(kind, "self", "weight").shape[-1])


@register(
    "dropout alpha_dropout feature_dropout feature_alpha_dropout native_dropout _fused_dropout quantized::dropout",
    category=ACTIVATION,
)
def dropout(kind: OpKind) -> Work:
    """Two ops per element in training (mask and scale), none otherwise."""
    active = attribute(kind, "train", True) and attribute(kind, "training", True)
    return Work(pointwise=2 * result_numel(kind) if active else 0)
