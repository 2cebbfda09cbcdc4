"""Rules about consecutive ops that should be merged or removed."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec.structs import replace

from assay.document.provenance import Figure
from assay.document.rows import OpKind
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, ModelFacts, share_of
from assay.findings.gains import removed_ops, scaled_ops
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.findings.time_spent import time_evidence, time_text
from assay.messages import plural

MIN_BYTES = 1024
"""Casts that move fewer bytes are only noted."""
_SOFTMAX = ("aten.softmax", "aten._softmax", "aten._safe_softmax")
_LOGARITHMS = ("aten.log", "aten.log_", "aten.log2", "aten.log10")
_LOG_OF = {
    "log_softmax": _SOFTMAX,
    "logsigmoid": ("aten.sigmoid", "aten.sigmoid_"),
}
"""The function to call instead of log, by the ops whose output log reads."""
_REPEATED = (
    _SOFTMAX,
    ("aten.relu", "aten.relu_"),
    ("aten.sigmoid", "aten.sigmoid_"),
)


@rule(
    "C101",
    "warning",
    "log of a softmax or sigmoid, which loses small probabilities",
    advice="Use torch.nn.functional.log_softmax or logsigmoid (in a loss: cross_entropy, "
    "binary_cross_entropy_with_logits): a probability that underflows to zero becomes -inf and its gradient NaN.",
    needs=(WHOLE_PASS, FLOW),
)
def log_of_probabilities(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Logarithms of the output of a softmax or sigmoid."""
    logarithms = set(facts.ops_of(*_LOGARITHMS))
    for instead, names in _LOG_OF.items():
        logs: list[int] = []
        for op in facts.ops_of(*names):
            storage = facts.flow.created_storage(op)
            if storage is not None and facts.flow.only_writer(storage) == op:
                logs += [reader for reader in facts.flow.readers.get(storage, []) if reader in logarithms]
        if logs:
            name = names[0].removeprefix("aten.")
            title = f"{plural(len(logs), 'log op')} on the output of {name} instead of {instead}"
            yield in_ops(facts, logs, title, {"executions": Figure(len(logs), BY_PASS)})


@rule(
    "C102",
    "warning",
    "the same activation applied twice in a row",
    advice="Remove one of the two: a second softmax or sigmoid flattens the output of the first, and a second ReLU "
    "has no effect.",
    needs=(WHOLE_PASS, FLOW),
)
def repeated_activation(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Activations that read the output of the same activation over the same shape."""
    for names in _REPEATED:
        ops = facts.ops_of(*names)
        second = [
            after
            for before, after in _consecutive(facts, ops)
            if facts.kind(before).outputs[0].type.shape == facts.kind(after).outputs[0].type.shape
            and facts.kind(before).attributes.get("dim") == facts.kind(after).attributes.get("dim")
        ]
        if second:
            name = names[0].removeprefix("aten.")
            title = f"{plural(len(second), f'{name} op')} directly after another {name}"
            yield in_ops(facts, second, title, {"executions": Figure(len(second), BY_PASS)})


def _consecutive(facts: ModelFacts, ops: list[int]) -> Iterator[tuple[int, int]]:
    """Pairs of these ops in which the second is the first to read the output of the first."""
    candidates = set(ops)
    for op in ops:
        for storage in facts.flow.op(op).writes[:1]:
            later = [each for each in facts.flow.readers.get(storage, []) if each > op]
            if later and later[0] in candidates and facts.flow.op(later[0]).reads[:1] == (storage,):
                yield op, later[0]


@rule(
    "C103",
    "advice",
    "two Linear layers in a row that one could replace",
    advice="Replace each pair with one Linear layer whose weight is the product of the two: it computes the same "
    "with fewer FLOPs. If the pair is wide, check whether an activation between the two is missing.",
    needs=(WHOLE_PASS, FLOW),
)
def mergeable_linears(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Pairs whose merged weight is smaller than the two weights together; a narrow middle is a factorisation."""
    linears = [op for op in facts.ops_of("aten.linear") if weight_shape(facts, op) is not None]
    pairs = []
    saved = 0
    for first, second in facts.flow.pairs(linears, linears):
        one, two = weight_shape(facts, first), weight_shape(facts, second)
        made = facts.kind(first).outputs[0].type.shape
        if one is None or two is None or made != facts.kind(second).inputs[0].type.shape:
            continue
        merged = two[0] * one[1]
        if one[0] < min(one[1], two[0]):  # a low-rank factorisation, as in LoRA, is meant to stay one
            continue
        # A weight that is also used elsewhere must be kept, so merging would add a matrix instead of replacing two.
        if merged < prod(one) + prod(two) and not (facts.is_shared(first) or facts.is_shared(second)):
            pairs.append((first, second))
            saved += 2 * prod(made[:-1]) * (prod(one) + prod(two) - merged)
    if not pairs:
        return
    title = f"{plural(len(pairs), 'pair')} of consecutive Linear layers can be merged"
    evidence = {
        "pairs": Figure(len(pairs), BY_PASS),
        "matrix_flops_saved": Figure(saved, BY_FORMULA),
        "share_of_flops": share_of(saved, facts.cost.forward.flops or 0, BY_FORMULA),
    }
    ops = [op for pair in pairs for op in pair]
    share = saved / work if (work := facts.flops_of(ops)) else 0.0
    gain = scaled_ops(facts, ops, min(share, 1.0), "Linear layers take time in proportion to their FLOPs")
    yield in_ops(facts, ops, title, evidence | time_evidence(facts, ops), gain)


def weight_shape(facts: ModelFacts, op: int) -> tuple[int, ...] | None:
    """The shape of the op's weight if that is a 2-D parameter, else None."""
    weight = next((one for one in facts.kind(op).inputs if one.name == "weight"), None)
    usable = weight is not None and weight.role == "parameter" and len(weight.type.shape) == 2
    return weight.type.shape if usable and weight is not None else None


@rule(
    "C105",
    "advice",
    "values cast to another dtype and straight back",
    advice="Remove both casts, or keep the values in one dtype between the two ops. A narrower dtype in between also "
    "rounds the values.",
    needs=(WHOLE_PASS, FLOW),
)
def round_trip(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Casts whose result is read only by a cast back to the original dtype."""
    casts = [op for op in facts.ops_of("aten.to", "aten._to_copy") if _is_cast(facts, op)]
    pairs = [
        (there, back)
        for there, back in facts.flow.pairs(casts, casts)
        if facts.kind(there).inputs[0].type.dtype == facts.kind(back).outputs[0].type.dtype
        and not _truncates(facts.kind(there))
    ]
    if not pairs:
        return
    ops = [op for pair in pairs for op in pair]
    moved = facts.bytes_of(ops)
    kind = facts.kind(pairs[0][0])
    took = time_text(facts, ops)
    title = (
        f"{plural(len(pairs), 'cast')} per pass{f', {took},' if took else ''} from {kind.inputs[0].type.dtype} to "
        f"{kind.outputs[0].type.dtype} and straight back"
    )
    evidence = {"round_trips": Figure(len(pairs), BY_PASS), "bytes": Figure(moved, BY_FORMULA)}
    match = in_ops(facts, ops, title, evidence | time_evidence(facts, ops), removed_ops(facts, ops))
    yield match if moved >= MIN_BYTES else replace(match, severity="note")


def _is_cast(facts: ModelFacts, op: int) -> bool:
    kind = facts.kind(op)
    return bool(kind.inputs and kind.outputs) and kind.inputs[0].type.dtype != kind.outputs[0].type.dtype


def _truncates(kind: OpKind) -> bool:
    """Whether a cast cuts off decimals or maps values to truth, which casting back is meant to keep."""
    before, after = kind.inputs[0].type.dtype, kind.outputs[0].type.dtype
    return after == "bool" or ("float" in before and "float" not in after)
