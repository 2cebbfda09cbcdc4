"""Rules about consecutive ops that should be merged or removed."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from assay.analysis.flow import operand_type
from assay.document.provenance import Figure
from assay.document.rows import TensorType
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, ModelFacts, share_of
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules, in_ops
from assay.messages import plural

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
    linears = [op for op in facts.ops_of("aten.linear") if _weight(facts, op) is not None]
    pairs = []
    saved = 0
    for first, second in facts.flow.pairs(linears, linears):
        one, two = _weight(facts, first), _weight(facts, second)
        made = facts.kind(first).outputs[0].type.shape
        if one is None or two is None or made != facts.kind(second).inputs[0].type.shape:
            continue
        merged = two[0] * one[1]
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
    yield in_ops(facts, (op for pair in pairs for op in pair), title, evidence)


def _weight(facts: ModelFacts, op: int) -> tuple[int, ...] | None:
    """The shape of the op's weight if that is a 2-D parameter, else None."""
    weight = next((one for one in facts.kind(op).inputs if one.name == "weight"), None)
    usable = weight is not None and weight.role == "parameter" and len(weight.type.shape) == 2
    return weight.type.shape if usable and weight is not None else None


@rule(
    "C104",
    "note",
    "Linear layers of one module that read the same input and could be fused",
    advice="Fuse them into one Linear layer with the rows of all weights (a fused QKV or gate-and-up projection) and "
    "split its output: it reads the input once and launches one kernel. Concatenate the weights of old checkpoints.",
    needs=(WHOLE_PASS, FLOW),
)
def fusable_projections(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Groups of Linear layers inside one module call that read the same tensor."""
    groups: dict[tuple[int, int, TensorType, bool], list[int]] = {}
    for op in facts.ops_of("aten.linear"):
        row = facts.document.ops[op]
        if row.call < 0 or not row.reads or _weight(facts, op) is None:
            continue
        parent = facts.document.calls[row.call].parent
        has_bias = operand_type(facts.kind(op), "bias") is not None
        if parent is not None and len(facts.flow.writers.get(row.reads[0], [])) <= 1:
            groups.setdefault((parent, row.reads[0], facts.kind(op).inputs[0].type, has_bias), []).append(op)
    joint = {
        key: ops
        for key, ops in groups.items()
        if len({facts.flow.operand(op, "weight") for op in ops}) == len(ops) > 1
    }
    if not joint:
        return
    parents = sorted({facts.document.calls[parent].module for parent, *_ in joint})
    kernels = sum(len(ops) - 1 for ops in joint.values())
    reread = sum((len(ops) - 1) * facts.kind_cost(ops[0]).read_activations for ops in joint.values())
    title = (
        f"{plural(len(joint), 'group')} of Linear layers with the same input can be fused, saving "
        f"{plural(kernels, 'matmul')} per pass"
    )
    evidence = {
        "groups": Figure(len(joint), BY_PASS),
        "products_saved": Figure(kernels, BY_PASS),
        "bytes_read_again": Figure(reread, BY_FORMULA),
    }
    yield in_modules(facts, parents, title, evidence)


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
    ]
    if not pairs:
        return
    ops = [op for pair in pairs for op in pair]
    moved = facts.bytes_of(ops)
    kind = facts.kind(pairs[0][0])
    title = (
        f"{plural(len(pairs), 'cast')} per pass from {kind.inputs[0].type.dtype} to {kind.outputs[0].type.dtype} and "
        "straight back"
    )
    yield in_ops(facts, ops, title, {"round_trips": Figure(len(pairs), BY_PASS), "bytes": Figure(moved, BY_FORMULA)})


def _is_cast(facts: ModelFacts, op: int) -> bool:
    kind = facts.kind(op)
    return bool(kind.inputs and kind.outputs) and kind.inputs[0].type.dtype != kind.outputs[0].type.dtype
