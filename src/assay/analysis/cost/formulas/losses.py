"""Losses: so many operations an element of the prediction, the closing sum included."""

from __future__ import annotations

from assay.analysis.cost.categories import LOSS
from assay.analysis.cost.reading import attribute, first, numel, operand
from assay.analysis.cost.registry import WorkRule, register, register_all
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

FORWARD = {
    3: "mse_loss l1_loss hinge_embedding_loss",
    4: "margin_ranking_loss kl_div soft_margin_loss multi_margin_loss",
    5: "smooth_l1_loss huber_loss poisson_nll_loss multilabel_margin_loss multilabel_margin_loss_forward",
    6: "binary_cross_entropy cosine_embedding_loss triplet_margin_loss",
    7: "binary_cross_entropy_with_logits",
}
BACKWARD = {
    3: "mse_loss_backward",
    4: "soft_margin_loss_backward multi_margin_loss_backward multilabel_margin_loss_backward",
    5: "smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward",
}
SOFTMAX = 5


def _per_prediction(operations: int) -> WorkRule:
    return lambda kind: Work(pointwise=operations * max(numel(one.type) for one in kind.inputs))


for _table in (FORWARD, BACKWARD):
    for _operations, _names in _table.items():
        register_all(_names, _per_prediction(_operations), category=LOSS)


def _picked(kind: OpKind) -> int:
    """A product and a sum for each target."""
    return 2 * numel(operand(kind, "target"))


@register(
    "aten::nll_loss", "aten::nll_loss_nd", "aten::nll_loss2d", "aten::nll_loss_forward",
    "aten::nll_loss2d_forward", "aten::nll_loss_backward", "aten::nll_loss2d_backward", category=LOSS,
)  # fmt: skip
def nll(kind: OpKind) -> Work:
    """One picked element a target."""
    return Work(pointwise=_picked(kind))


@register("aten::cross_entropy_loss", category=LOSS)
def cross_entropy(kind: OpKind) -> Work:
    """A log-softmax, then the picked elements; every class where targets are probabilities or smoothed."""
    scores, target = first(kind), operand(kind, "target")
    whole = target.shape == scores.shape or float(attribute(kind, "label_smoothing", 0)) > 0
    return Work(pointwise=SOFTMAX * numel(scores) + (2 * numel(scores) if whole else _picked(kind)))


@register(
    "aten::ctc_loss", "aten::_ctc_loss", "aten::_cudnn_ctc_loss", "aten::miopen_ctc_loss",
    "aten::_ctc_loss_backward", category=LOSS,
)  # fmt: skip
def ctc(kind: OpKind) -> Work:
    """Three paths into each of 2T + 1 states a step; the backward runs both ways and over all classes."""
    scores, targets = operand(kind, "log_probs"), operand(kind, "targets")
    states = 2 * targets.shape[-1] + 1
    batch = scores.shape[1] if len(scores.shape) == 3 else 1
    steps = scores.shape[0] * batch * states * 6
    return Work(pointwise=2 * steps + 2 * numel(scores) if "backward" in kind.target else steps)
