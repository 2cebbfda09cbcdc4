"""Operations that follow one another and should be one, or none."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from assay.analysis.flow import operand_type
from assay.document.provenance import Figure
from assay.document.rows import TensorType
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, ModelFacts, part
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules, in_ops
from assay.messages import plural

_SOFTMAX = ("aten.softmax", "aten._softmax", "aten._safe_softmax")
_LOGARITHMS = ("aten.log", "aten.log_", "aten.log2", "aten.log10")
_FRAGILE = {
    "log_softmax": _SOFTMAX,
    "logsigmoid": ("aten.sigmoid", "aten.sigmoid_"),
}
"""What to call instead of the logarithm of each."""
_TWICE = (
    _SOFTMAX,
    ("aten.relu", "aten.relu_"),
    ("aten.sigmoid", "aten.sigmoid_"),
)


@rule(
    "C101",
    "warning",
    "the logarithm of a softmax or sigmoid, which loses small probabilities",
    advice="Use torch.nn.functional.log_softmax or logsigmoid (in a loss: cross_entropy, "
    "binary_cross_entropy_with_logits): a probability that underflows to zero becomes -inf here, its gradient NaN.",
    needs=(WHOLE_PASS, FLOW),
)
def fragile_logarithm(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Logarithms that read what a softmax or sigmoid made."""
    logarithms = set(facts.ops_of(*_LOGARITHMS))
    for instead, names in _FRAGILE.items():
        found = []
        for op in facts.ops_of(*names):
            storage = facts.flow.made(op)
            if storage is not None and facts.flow.maker(storage) == op:
                found += [reader for reader in facts.flow.readers.get(storage, []) if reader in logarithms]
        if found:
            name = names[0].removeprefix("aten.")
            title = f"log of {name} is taken ({plural(len(found), 'time')} a pass) where {instead} is meant"
            yield in_ops(facts, found, title, {"executions": Figure(len(found), BY_PASS)})


@rule(
    "C102",
    "warning",
    "an activation applied to its own result",
    advice="Remove one of the two: a second softmax or sigmoid flattens what the first made, a second ReLU does "
    "nothing.",
    needs=(WHOLE_PASS, FLOW),
)
def twice(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The same activation twice in a row over the same shape."""
    for names in _TWICE:
        ops = facts.ops_of(*names)
        second = [
            after
            for before, after in _followed(facts, ops)
            if facts.kind(before).outputs[0].type.shape == facts.kind(after).outputs[0].type.shape
            and facts.kind(before).attributes.get("dim") == facts.kind(after).attributes.get("dim")
        ]
        if second:
            title = f"{names[0].removeprefix('aten.')} is applied to its own result"
            yield in_ops(facts, second, title, {"executions": Figure(len(second), BY_PASS)})


def _followed(facts: ModelFacts, ops: list[int]) -> Iterator[tuple[int, int]]:
    """Pairs of these operations where the second reads, first of all, what the first has just made."""
    wanted = set(ops)
    for op in ops:
        for storage in facts.flow.op(op).writes[:1]:
            later = [each for each in facts.flow.readers.get(storage, []) if each > op]
            if later and later[0] in wanted and facts.flow.op(later[0]).reads[:1] == (storage,):
                yield op, later[0]


@rule(
    "C103",
    "advice",
    "two linear layers in a row that one would replace",
    advice="Nothing stands between them, so one layer with the product of the two matrices computes the same with "
    "fewer FLOPs. A wide pair may have been meant to have an activation between.",
    needs=(WHOLE_PASS, FLOW),
)
def mergeable_linears(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Pairs where the product of the two matrices is no larger than both; a narrow middle is a factorisation."""
    linears = [op for op in facts.ops_of("aten.linear") if _weight(facts, op) is not None]
    pairs = []
    saved = 0
    for first, second in facts.flow.pairs(linears, linears):
        one, two = _weight(facts, first), _weight(facts, second)
        made = facts.kind(first).outputs[0].type.shape
        if one is None or two is None or made != facts.kind(second).inputs[0].type.shape:
            continue
        merged = two[0] * one[1]
        # A merged matrix would come on top of one that is used elsewhere too.
        if merged < prod(one) + prod(two) and not (facts.is_shared(first) or facts.is_shared(second)):
            pairs.append((first, second))
            saved += 2 * prod(made[:-1]) * (prod(one) + prod(two) - merged)
    if not pairs:
        return
    title = f"linear layers that follow one another directly and could be one, {plural(len(pairs), 'pair')}"
    evidence = {
        "pairs": Figure(len(pairs), BY_PASS),
        "matrix_flops_saved": Figure(saved, BY_FORMULA),
        "share_of_flops": part(saved, facts.cost.forward.flops or 0, BY_FORMULA),
    }
    yield in_ops(facts, (op for pair in pairs for op in pair), title, evidence)


def _weight(facts: ModelFacts, op: int) -> tuple[int, ...] | None:
    """The shape of its matrix, where that is a parameter."""
    weight = next((one for one in facts.kind(op).inputs if one.name == "weight"), None)
    usable = weight is not None and weight.role == "parameter" and len(weight.type.shape) == 2
    return weight.type.shape if usable and weight is not None else None


@rule(
    "C104",
    "note",
    "linear layers of one module that read the same input and could be one product",
    advice="One matrix with the rows of all of them (a fused qkv or gate-and-up projection), split afterwards, reads "
    "the input once and starts one kernel. Checkpoints then need their weights joined on loading.",
    needs=(WHOLE_PASS, FLOW),
)
def fusable_projections(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Groups of linear layers below one call that read one storage in the same way."""
    groups: dict[tuple[int, int, TensorType, bool], list[int]] = {}
    for op in facts.ops_of("aten.linear"):
        row = facts.document.ops[op]
        if row.call < 0 or not row.reads or _weight(facts, op) is None:
            continue
        parent = facts.document.calls[row.call].parent
        has_bias = operand_type(facts.kind(op), "bias") is not None
        if parent is not None and len(facts.flow.makers.get(row.reads[0], [])) <= 1:
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
    again = sum((len(ops) - 1) * facts.kind_cost(ops[0]).read_activations for ops in joint.values())
    title = (
        f"linear layers that read the same input in {plural(len(joint), 'group')}, "
        f"{plural(kernels, 'product')} more than needed"
    )
    evidence = {
        "groups": Figure(len(joint), BY_PASS),
        "products_saved": Figure(kernels, BY_PASS),
        "bytes_read_again": Figure(again, BY_FORMULA),
    }
    yield in_modules(facts, parents, title, evidence)


@rule(
    "C105",
    "advice",
    "values cast to another dtype and straight back",
    advice="Drop both casts, or keep the values in one dtype between the two places; the way through a narrower "
    "dtype also rounds them.",
    needs=(WHOLE_PASS, FLOW),
)
def round_trip(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Casts whose result only a cast back to the first dtype reads."""
    casts = [op for op in facts.ops_of("aten.to", "aten._to_copy") if _is_cast(facts, op)]
    back = [
        (there, again)
        for there, again in facts.flow.pairs(casts, casts)
        if facts.kind(there).inputs[0].type.dtype == facts.kind(again).outputs[0].type.dtype
    ]
    if not back:
        return
    ops = [op for pair in back for op in pair]
    moved = facts.bytes_of(ops)
    kind = facts.kind(back[0][0])
    title = (
        f"{plural(len(back), 'time')} a pass values go from {kind.inputs[0].type.dtype} to "
        f"{kind.outputs[0].type.dtype} and straight back"
    )
    yield in_ops(facts, ops, title, {"round_trips": Figure(len(back), BY_PASS), "bytes": Figure(moved, BY_FORMULA)})


def _is_cast(facts: ModelFacts, op: int) -> bool:
    kind = facts.kind(op)
    return bool(kind.inputs and kind.outputs) and kind.inputs[0].type.dtype != kind.outputs[0].type.dtype
