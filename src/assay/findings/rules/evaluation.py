"""What evaluation mode should have switched off, and what it allows."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.flow import operand_type
from assay.document.provenance import Figure
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, BY_TENSORS, ModelFacts, part
from assay.findings.needs import EVALUATION, FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.messages import plural

_DROPOUTS = (
    "aten.dropout", "aten.dropout_", "aten.native_dropout", "aten.feature_dropout", "aten.feature_dropout_",
    "aten.alpha_dropout", "aten.alpha_dropout_", "aten.feature_alpha_dropout", "aten.feature_alpha_dropout_",
)  # fmt: skip
_CONVOLUTIONS = (
    "aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.conv_transpose1d", "aten.conv_transpose2d",
    "aten.conv_transpose3d", "aten.convolution",
)  # fmt: skip
_BATCH_NORM = "aten.batch_norm"


@rule(
    "S201",
    "warning",
    "dropout that is active in evaluation mode",
    advice="Pass training=self.training to functional dropout, or use nn.Dropout: outputs are random as it is. Where "
    "that is wanted (sampling many outputs), ignore this code.",
    needs=(WHOLE_PASS, EVALUATION),
)
def active_dropout(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Dropout with a probability that drops in a pass made in evaluation mode."""
    dropping = [
        op
        for op in facts.ops_of(*_DROPOUTS)
        if facts.kind(op).attributes.get("train") is True and (facts.kind(op).attributes.get("p") or 0) > 0
    ]
    dropping += [
        op
        for op in facts.ops_of("aten.scaled_dot_product_attention")
        if (facts.kind(op).attributes.get("dropout_p") or 0) > 0
    ]
    if not dropping:
        return
    title = f"dropout drops values in evaluation mode, {len(dropping)} times a pass"
    yield in_ops(facts, dropping, title, {"active_dropouts": Figure(len(dropping), BY_PASS)})


@rule(
    "S202",
    "warning",
    "batch normalisation that uses the batch's own statistics in evaluation mode",
    advice="Each output depends on what else is in the batch. Track running statistics (track_running_stats=True, "
    "training=self.training), or use a normalisation that does not look across the batch.",
    needs=(WHOLE_PASS, EVALUATION),
)
def batch_statistics(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Batch normalisation that calculates statistics in a pass made in evaluation mode."""
    ops = [op for op in facts.ops_of(_BATCH_NORM) if facts.kind(op).attributes.get("training") is True]
    if not ops:
        return
    title = f"{plural(len(ops), 'batch normalisation')} with the statistics of the batch itself"
    yield in_ops(facts, ops, title, {"batch_norms": Figure(len(ops), BY_PASS)})


@rule(
    "S203",
    "advice",
    "batch normalisation right after a convolution or linear layer, to be folded into it for inference",
    advice="torch.nn.utils.fusion.fuse_conv_bn_eval (or fuse_linear_bn_eval), or torch.compile with freezing, makes "
    "one layer of the two; the result is the same up to rounding. For inference only.",
    needs=(WHOLE_PASS, EVALUATION, FLOW),
)
def foldable_norm(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Normalisations with fixed statistics that alone read what a convolution makes."""
    makers = facts.ops_of(*_CONVOLUTIONS, "aten.linear")
    pairs = [
        (first, norm)
        for first, norm in facts.flow.pairs(makers, facts.ops_of(_BATCH_NORM))
        if facts.kind(norm).attributes.get("training") is False
        and not facts.is_shared(first)
        and facts.kind(norm).inputs[0].type.shape == facts.kind(first).outputs[0].type.shape
    ]
    if not pairs:
        return
    norms = [norm for _, norm in pairs]
    moved = facts.bytes_of(norms)
    title = (
        f"{plural(len(norms), 'batch normalisation')} can be folded into the layer before, which saves "
        f"{units.share(moved, facts.bytes)} of the bytes moved"
    )
    evidence = {
        "foldable": Figure(len(norms), BY_PASS),
        "bytes_saved": Figure(moved, BY_FORMULA),
        "share_of_bytes": part(moved, facts.bytes, BY_FORMULA),
    }
    yield in_ops(facts, norms, title, evidence)


@rule(
    "S204",
    "advice",
    "a bias right before batch normalisation, which makes it redundant",
    advice="Build these layers with bias=False: training subtracts the mean, the bias with it, and the normalisation "
    "has a bias of its own. In a trained model subtract the bias from running_mean when removing it.",
    needs=(WHOLE_PASS, FLOW),
)
def useless_bias(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Biased layers whose result only a batch normalisation reads."""
    makers = [
        op for op in facts.ops_of(*_CONVOLUTIONS, "aten.linear") if operand_type(facts.kind(op), "bias") is not None
    ]
    found = {
        facts.flow.operand(first, "bias"): first
        for first, norm in facts.flow.pairs(makers, facts.ops_of(_BATCH_NORM))
        if facts.kind(norm).inputs[0].type.shape == facts.kind(first).outputs[0].type.shape
    }
    if not found:
        return
    biases = [operand_type(facts.kind(op), "bias") for op in found.values()]
    count = sum(bias.shape[0] for bias in biases if bias is not None)
    title = f"{plural(len(found), 'bias')} ({units.exact(count)} parameters) redundant before batch normalisation"
    evidence = {"biases": Figure(len(found), BY_PASS), "parameters": Figure(count, BY_TENSORS)}
    yield in_ops(facts, found.values(), title, evidence)
