"""Rules about the output projection of a language model: for how many positions it computes logits."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec.structs import replace

from assay import units
from assay.analysis.cost import categories
from assay.analysis.memory.lifetimes import BY_STORAGES, forward, live_bytes
from assay.document.findings import Gain
from assay.document.provenance import Figure
from assay.document.roles import PARAMETER
from assay.document.rows import Operand, OpKind, TensorType
from assay.findings.catalogue import rule
from assay.findings.facts import BY_PASS, ModelFacts, share_of
from assay.findings.gains import scaled_ops
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.findings.time_spent import time_evidence, time_text

LOGITS_SHARE = 0.25
MIN_LOGIT_BYTES = 1 << 20
MIN_VOCABULARY = 8192
MIN_CLASSES = 1000
"""From this many classes, logits that are computed and not used are reported even without a large vocabulary."""
_SELECT_FIRST = "Select the position before the output projection, as in head(x[:, -1:]): the result is the same."
_POINTWISE = (categories.ELEMENT_WISE, categories.ACTIVATION, categories.DATA_MOVEMENT)


@rule(
    "M102",
    "note",
    "logits over a large vocabulary for every position",
    advice="Compute only the last position's logits when generating (in transformers: logits_to_keep=1). For "
    "training, use a loss that processes the vocabulary or the sequence in chunks.",
    needs=(WHOLE_PASS, FLOW),
)
def logits(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Logits of all positions: of which only one is used, or that take a large share of the peak memory."""
    heads = [op for op in facts.ops_of("aten.linear", "aten.matmul") if _is_head(facts.kind(op))]
    if not heads:
        return
    head = max(heads, key=lambda op: prod(facts.kind(op).outputs[0].type.shape))
    ops = _ops_on_one_position(facts, head)
    match = _large(facts, head) if ops is None else _unused(facts, head, ops)
    if match is not None:
        yield match


def _is_head(kind: OpKind) -> bool:
    """Whether it is a product with a parameter that gives several positions many classes."""
    shape = kind.outputs[0].type.shape
    return (
        len(shape) == 3
        and shape[-1] >= MIN_CLASSES
        and shape[-2] > 1
        and any(operand.role == PARAMETER for operand in kind.inputs)
    )


def _unused(facts: ModelFacts, head: int, ops: list[int]) -> RuleMatch:
    """A match for logits of which the pass uses those of one position."""
    shape = facts.kind(head).outputs[0].type.shape
    positions = shape[-2]
    took = time_text(facts, ops)
    what = f"logits of {positions} positions{f', {took},' if took else ''}"
    title = f"{what} are computed ({units.shape(shape)}), but only one position is used"
    evidence = _evidence(facts, head) | time_evidence(facts, ops)
    match = in_ops(facts, [head], title, evidence, _gain(facts, ops, positions))
    return replace(match, severity="advice", advice=_SELECT_FIRST)


def _large(facts: ModelFacts, head: int) -> RuleMatch | None:
    """A match for logits that take a large share of the peak activation memory; None if they do not."""
    shape, evidence = facts.kind(head).outputs[0].type.shape, _evidence(facts, head)
    size, peak = evidence["logit_bytes"].value or 0, evidence["peak_bytes"].value or 0
    if shape[-1] < MIN_VOCABULARY or size < MIN_LOGIT_BYTES or size < LOGITS_SHARE * peak:
        return None
    title = (
        f"logits of shape {units.shape(shape)} take {units.size(size)}, {units.share(size, peak)} of the peak "
        "activation memory"
    )
    gain = _gain(facts, [head], shape[-2])
    return in_ops(facts, [head], title, evidence | time_evidence(facts, [head]), gain)


def _gain(facts: ModelFacts, ops: list[int], positions: int) -> Gain:
    return scaled_ops(facts, ops, (positions - 1) / positions, f"one of {positions} positions is needed")


def _evidence(facts: ModelFacts, head: int) -> dict[str, Figure]:
    """The bytes of the logits and the peak of all activations."""
    made = facts.flow.created_storage(head)
    size = facts.document.storages[made].bytes if made is not None else 0
    peak = max(live_bytes(forward(facts.document).moving, len(facts.document.ops)), default=0)
    return {
        "positions": Figure(facts.kind(head).outputs[0].type.shape[-2], BY_PASS),
        "logit_bytes": Figure(size, BY_STORAGES),
        "peak_bytes": Figure(peak, BY_STORAGES),
        "share_of_peak": share_of(size, peak, BY_STORAGES),
    }


def _ops_on_one_position(facts: ModelFacts, head: int) -> list[int] | None:
    """The head and the pointwise ops after it that run for all positions; None unless only one position is used."""
    shape = facts.kind(head).outputs[0].type.shape
    whole, one = prod(shape), prod(shape) // shape[-2]
    returned = [prod(each.shape) for each in _returned(facts) if each.shape[-1:] == shape[-1:]]
    ops, used = [head], one in returned
    for op in ops:
        for reader, size in _reads(facts, op):
            if size == whole and _is_pointwise(facts, reader, whole):
                ops.append(reader)
            elif size > one:
                return None
            used = used or size == one
    return ops if used and max(returned, default=0) <= one else None


def _reads(facts: ModelFacts, op: int) -> list[tuple[int, int]]:
    """The ops that read the result of `op`, each with the number of elements that it reads."""
    storage = facts.flow.created_storage(op)
    readers = facts.flow.readers.get(storage, []) if storage is not None else []
    return [
        (reader, max(prod(one.type.shape) for one, read in _operands(facts, reader) if read == storage))
        for reader in readers
    ]


def _operands(facts: ModelFacts, op: int) -> list[tuple[Operand, int]]:
    """The tensor arguments of an op, each with its storage."""
    return list(zip(facts.kind(op).inputs, facts.document.ops[op].reads, strict=False))


def _is_pointwise(facts: ModelFacts, op: int, size: int) -> bool:
    """Whether an op computes each position by itself: a cast, a temperature, a soft cap, a softmax."""
    outputs = facts.kind(op).outputs
    return facts.kind_cost(op).category in _POINTWISE and bool(outputs) and prod(outputs[0].type.shape) == size


def _returned(facts: ModelFacts) -> tuple[TensorType, ...]:
    """The types of the tensors that the model returns."""
    return next((call.outputs for call in facts.document.calls if call.parent is None), ())
