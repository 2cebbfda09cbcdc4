"""Losses: a fixed number of ops per element of the prediction, including the final sum."""

from __future__ import annotations

from assay.analysis.cost.categories import LOSS
from assay.analysis.cost.formulas.normalization import SOFTMAX
from assay.analysis.cost.reading import attribute, first, numel, operand
from assay.analysis.cost.registry import register, register_table
from assay.analysis.cost.rules import per_largest, per_operand
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

PER_PREDICTION = {
    3: "mse_loss l1_loss hinge_embedding_loss mse_loss_backward",
    4: "margin_ranking_loss kl_div soft_margin_loss multi_margin_loss soft_margin_loss_backward"
    " multi_margin_loss_backward multilabel_margin_loss_backward",
    5: "smooth_l1_loss huber_loss poisson_nll_loss multilabel_margin_loss multilabel_margin_loss_forward"
    " smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward",
    6: "binary_cross_entropy cosine_embedding_loss triplet_margin_loss",
    7: "binary_cross_entropy_with_logits",
}
PICKED = 2
"""Ops per target: one product and one sum."""

register_table(PER_PREDICTION, per_largest, category=LOSS)
register(
    "nll_loss nll_loss_nd nll_loss2d nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward",
    category=LOSS,
)(per_operand(PICKED, "target"))


@register("cross_entropy_loss", category=LOSS)
def cross_entropy(kind: OpKind) -> Work:
    """A log-softmax, then two ops per target, or per score if targets are probabilities or smoothed."""
    scores, target = first(kind), operand(kind, "target")
    whole = target.shape == scores.shape or float(attribute(kind, "label_smoothing", 0)) > 0
    return Work(pointwise=SOFTMAX * numel(scores) + PICKED * numel(scores if whole else target))


@register("ctc_loss _ctc_loss _cudnn_ctc_loss miopen_ctc_loss _ctc_loss_backward", category=LOSS)
def ctc(kind: OpKind) -> Work:
    """6 ops per step and state, of 2T + 1 states with three paths each; backward: twice that, and 2 per score."""
    scores, targets = operand(kind, "log_probs"), operand(kind, "targets")
    states = 2 * targets.shape[-1] + 1
    batch = scores.shape[1] if len(scores.shape) == 3 else 1
    steps = scores.shape[0] * batch * states * 6
    return Work(pointwise=2 * steps + 2 * numel(scores) if "backward" in kind.target else steps)
