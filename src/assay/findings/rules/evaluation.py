"""Rules about evaluation mode: what should be inactive in it, and what can be folded or dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from assay.analysis.convolutions import is_convolution
from assay.analysis.flow import operand_type
from assay.document.dtypes import nbytes
from assay.document.provenance import Figure
from assay.document.roles import PARAMETER
from assay.document.rows import Module, OpKind
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_MODE, BY_PASS, BY_TENSORS, ModelFacts, share_of
from assay.findings.gains import bytes_gain, removed_ops
from assay.findings.needs import EVALUATION, FLOW, MODULES, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules, in_ops
from assay.findings.time_spent import time_evidence, time_text
from assay.messages import plural

_DROPOUTS = (
    "aten.dropout", "aten.dropout_", "aten.native_dropout", "aten.feature_dropout", "aten.feature_dropout_",
    "aten.alpha_dropout", "aten.alpha_dropout_", "aten.feature_alpha_dropout", "aten.feature_alpha_dropout_",
)  # fmt: skip
_BATCH_NORM = "aten.batch_norm"
_MODE_MATTERS = re.compile(r"^(?!.*Frozen).*((Batch|Instance)Norm|Dropout|DropPath|StochasticDepth)")
"""Names of classes whose output depends on the mode."""
_PROBABILITIES = ("p", "drop_prob")
MIN_SHARE = 0.02
"""If the time is unknown, folding that saves a smaller share of the bytes is only noted."""
_BAKED = "Call model.eval() before tracing or exporting it for inference: the mode is stored in the graph."
_DROPPING = re.compile(r"^(LSTM|GRU|RNN|MultiheadAttention)$")
"""Classes that drop values in training mode if their setting `dropout` is not 0."""


@rule(
    "S201",
    "warning",
    "Dropout that is active in evaluation mode",
    advice="Pass training=self.training to functional dropout, or use nn.Dropout: otherwise outputs are random. If "
    "that is intended (Monte Carlo dropout), ignore this rule.",
    needs=(WHOLE_PASS, EVALUATION),
)
def active_dropout(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Dropout and SDPA calls that drop values in a pass in evaluation mode."""
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
    dropping = [op for op in dropping if facts.module(op) not in facts.left_in_training]
    if dropping:
        what, evidence = plural(len(dropping), "Dropout call"), {"active_dropouts": Figure(len(dropping), BY_PASS)}
        yield _active(facts, dropping, f"{what} active", evidence)


def _active(facts: ModelFacts, ops: list[int], title: str, evidence: dict[str, Figure]) -> RuleMatch:
    """A match for ops that behave as in training; a note if the whole program was exported for training."""
    if _is_exported(facts):
        match = in_ops(facts, ops, f"{title} in the exported program", evidence)
        return replace(match, severity="" if _has_evaluating_ops(facts) else "note", advice=_BAKED)
    match = in_ops(facts, ops, f"{title} in evaluation mode", evidence)
    graph = any(facts.document.modules[index].scripted for index in facts.modules(ops))
    return replace(match, advice=_BAKED) if graph else match


def _has_evaluating_ops(facts: ModelFacts) -> bool:
    """Whether some Dropout or BatchNorm op behaves as in evaluation mode."""
    kinds = [facts.kind(op) for op in facts.ops_of(*_DROPOUTS, _BATCH_NORM)]
    return any(kind.attributes.get("train", kind.attributes.get("training")) is False for kind in kinds)


def _is_exported(facts: ModelFacts) -> bool:
    """Whether the modules have no mode of their own, because the program was exported in one."""
    origin = facts.document.origin
    return origin.kind == "exported" or origin.name == "ExportedProgram"


@rule(
    "S202",
    "warning",
    "BatchNorm that uses batch statistics in evaluation mode",
    advice="Track running statistics (track_running_stats=True, training=self.training), or use a layer that does "
    "not normalise over the batch (LayerNorm, GroupNorm): otherwise each output depends on the other samples.",
    needs=(WHOLE_PASS, EVALUATION),
)
def batch_statistics(facts: ModelFacts) -> Iterator[RuleMatch]:
    """BatchNorm ops that compute batch statistics in a pass in evaluation mode."""
    ops = [
        op
        for op in facts.ops_of(_BATCH_NORM)
        if facts.kind(op).attributes.get("training") is True
        and facts.kind(op).inputs[0].role != PARAMETER  # weight standardisation
        and facts.module(op) not in facts.left_in_training
    ]
    if ops:
        what, evidence = plural(len(ops), "BatchNorm layer"), {"batch_norms": Figure(len(ops), BY_PASS)}
        yield _active(facts, ops, f"{what} with batch statistics", evidence)


@rule(
    "S203",
    "advice",
    "BatchNorm that can be folded into the preceding convolution or Linear layer for inference",
    advice="Fold each pair with torch.nn.utils.fusion.fuse_conv_bn_eval (or fuse_linear_bn_eval), or use "
    "torch.compile with freezing. Outputs are the same up to rounding. For inference only.",
    needs=(WHOLE_PASS, EVALUATION, FLOW),
)
def foldable_norm(facts: ModelFacts) -> Iterator[RuleMatch]:
    """BatchNorm ops with running statistics that are the only reader of a convolution's or Linear layer's output."""
    producers = facts.ops_where(_has_foldable_output)
    pairs = [
        (first, norm)
        for first, norm in facts.flow.pairs(producers, facts.ops_of(_BATCH_NORM))
        if facts.kind(norm).attributes.get("training") is False
        and facts.module(norm) not in facts.left_in_training
        and not facts.is_shared(first)
        and facts.kind(norm).inputs[0].type.shape == facts.kind(first).outputs[0].type.shape
    ]
    if not pairs:
        return
    norms = [norm for _, norm in pairs]
    moved = facts.bytes_of(norms)
    took = time_text(facts, norms)
    what = f"{plural(len(norms), 'BatchNorm layer')}{f', {took},' if took else ''}"
    evidence = {
        "foldable": Figure(len(norms), BY_PASS),
        "bytes_saved": Figure(moved, BY_FORMULA),
        "share_of_bytes": share_of(moved, facts.bytes, BY_FORMULA),
        **time_evidence(facts, norms),
    }
    gain = removed_ops(facts, norms)
    match = in_ops(facts, norms, f"{what} can be folded into the preceding layer", evidence, gain)
    few = gain.share.value is None and moved < MIN_SHARE * facts.bytes
    yield replace(match, severity="note") if few else match


def _has_foldable_output(kind: OpKind) -> bool:
    """Whether it is a convolution or a Linear layer, into which a BatchNorm can be folded."""
    return is_convolution(kind) or kind.target == "aten.linear.default"


@rule(
    "S205",
    "warning",
    "BatchNorm or Dropout left in training mode inside a model in evaluation mode",
    advice="Call model.eval() on the whole model after loading it, and check train() overrides that skip submodules: "
    "these layers drop values, or normalise by the batch and overwrite their running statistics, at every call. If "
    "that is intended (Monte Carlo dropout, test-time adaptation), ignore this rule.",
    needs=(MODULES,),
)
def training_layers(facts: ModelFacts) -> Iterator[RuleMatch]:
    """BatchNorm and Dropout modules that were in training mode before the pass although the root was not."""
    yield from _in_training(facts, facts.left_in_training, "{} left in training mode, in a model in evaluation mode")


@rule(
    "S206",
    "note",
    "a model in training mode with BatchNorm or Dropout",
    advice="Call model.eval() before inference: in training mode these layers drop values, or normalise by the batch "
    "and overwrite their running statistics, at every call. Suggestions for inference assume evaluation mode.",
    needs=(MODULES,),
)
def training_model(facts: ModelFacts) -> Iterator[RuleMatch]:
    """BatchNorm and Dropout modules in training mode inside a model that is in training mode itself."""
    modules = facts.document.modules
    if modules[0].training and not _is_exported(facts):
        training = (index for index, module in enumerate(modules) if module.training)
        yield from _in_training(facts, training, "the model is in training mode, with {}")


def _depends_on_mode(module: Module) -> bool:
    """Whether the output of a module depends on its mode: BatchNorm, and whatever drops values."""
    if "dropout" in module.config and not _MODE_MATTERS.search(module.class_name):
        return _DROPPING.search(module.class_name) is not None and bool(module.config["dropout"])
    if _MODE_MATTERS.search(module.class_name) is None or module.config.get("track_running_stats") is False:
        return False
    return all(module.config.get(name) != 0 for name in _PROBABILITIES)


def _in_training(facts: ModelFacts, modules: Iterable[int], title: str) -> Iterator[RuleMatch]:
    """A match for the BatchNorm and Dropout layers among `modules`; their number replaces `{}` in the title."""
    rows = facts.document.modules
    layers = [index for index in sorted(modules) if _depends_on_mode(rows[index])]
    if not layers:
        return
    norms = sum("Norm" in rows[index].class_name for index in layers)
    counts = ((norms, "BatchNorm layer"), (len(layers) - norms, "Dropout layer"))
    what = " and ".join(plural(count, noun) for count, noun in counts if count)
    evidence = {"batch_norms": Figure(norms, BY_MODE), "dropouts": Figure(len(layers) - norms, BY_MODE)}
    yield in_modules(facts, layers, title.format(what), evidence)


@rule(
    "S204",
    "advice",
    "biases that the following BatchNorm makes redundant",
    advice="Build these layers with bias=False: BatchNorm subtracts the mean and thus the bias, and adds a bias of "
    "its own. When you remove the bias from a trained model, subtract it from running_mean.",
    needs=(WHOLE_PASS, FLOW),
)
def redundant_bias(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Convolutions and Linear layers with a bias whose output is read only by BatchNorm."""
    producers = [
        op for op in facts.ops_where(_has_foldable_output) if operand_type(facts.kind(op), "bias") is not None
    ]
    biased = {
        facts.flow.operand(first, "bias"): first
        for first, norm in facts.flow.pairs(producers, facts.ops_of(_BATCH_NORM))
        if facts.kind(norm).inputs[0].type.shape == facts.kind(first).outputs[0].type.shape
    }
    if not biased:
        return
    biases = [operand_type(facts.kind(op), "bias") for op in biased.values()]
    count = sum(bias.shape[0] for bias in biases if bias is not None)
    size = sum(nbytes(bias.shape[0], bias.dtype) for bias in biases if bias is not None)
    title = f"{plural(len(biased), 'redundant bias')} ({plural(count, 'parameter')}) before BatchNorm"
    evidence = {"biases": Figure(len(biased), BY_PASS), "parameters": Figure(count, BY_TENSORS)}
    yield in_ops(facts, biased.values(), title, evidence, bytes_gain(size, facts.parameter_bytes, BY_TENSORS))
