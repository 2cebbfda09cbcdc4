"""Rules about attention: whether it uses SDPA, and whether a fused kernel can run it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from assay import units
from assay.analysis.attention import unfused_attention
from assay.analysis.flow import operand_type
from assay.document.provenance import Figure
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, BY_TENSORS, ModelFacts, share_of
from assay.findings.gains import above_limits, removed_ops
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.findings.time_spent import time_evidence, time_text
from assay.messages import plural

HEAD_SIZE_MULTIPLE = 8
MAX_HEAD_SIZE = 256
MIN_SCORE_BYTES = 1 << 16
"""If the time is unknown, attention with smaller scores is only noted: they stay in a cache."""
_FUSED = "aten.scaled_dot_product_attention"


@rule(
    "C401",
    "advice",
    "attention computed as two matmuls around a softmax instead of SDPA",
    advice="Call torch.nn.functional.scaled_dot_product_attention (in transformers: attn_implementation='sdpa'), "
    "which computes the same in one kernel and never writes the attention scores to memory. Pass masks and biases as "
    "attn_mask. With nn.MultiheadAttention, pass need_weights=False.",
    needs=(WHOLE_PASS, FLOW),
)
def attention_without_sdpa(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Attention built from two matmuls around a softmax, with the size of its score matrices."""
    attentions = [each for each in unfused_attention(facts.document) if each.plain]
    if not attentions:
        return
    largest = max(each.score_bytes for each in attentions)
    between = sorted({op for each in attentions for op in each.between})
    moved = facts.bytes_of(between)
    took = time_text(facts, between)
    title = f"{plural(len(attentions), 'attention call')} without SDPA, with " + (
        f"{took} between the two matmuls" if took else f"score matrices of up to {units.size(largest)}"
    )
    evidence = {
        "attentions": Figure(len(attentions), BY_PASS),
        "score_bytes": Figure(largest, BY_TENSORS),
        "bytes_between_products": Figure(moved, BY_FORMULA),
        "share_of_bytes": share_of(moved, facts.bytes, BY_FORMULA),
        **time_evidence(facts, between),
    }
    gain = removed_ops(facts, between)
    match = in_ops(facts, (each.softmax for each in attentions), title, evidence, gain)
    small = gain.share.value is None and largest < MIN_SCORE_BYTES
    yield replace(match, severity="note") if small else match


@rule(
    "C402",
    "advice",
    "attention head sizes that fused kernels do not support",
    advice="Use a head size that is a multiple of 8 and at most 256: other sizes are padded or fall back to kernels "
    "that write the attention scores to memory. 64 and 128 are fastest.",
    needs=(WHOLE_PASS,),
)
def head_size(facts: ModelFacts) -> Iterator[RuleMatch]:
    """SDPA calls whose head size is not a multiple of 8 or is above 256; one match per head size."""
    by_size: dict[int, list[int]] = {}
    for op in facts.ops_of(_FUSED):
        query = operand_type(facts.kind(op), "query")
        size = query.shape[-1] if query is not None and query.shape else 0
        if size % HEAD_SIZE_MULTIPLE or size > MAX_HEAD_SIZE:
            by_size.setdefault(size, []).append(op)
    for size, ops in by_size.items():
        problem = f"not a multiple of {HEAD_SIZE_MULTIPLE}" if size % HEAD_SIZE_MULTIPLE else f"above {MAX_HEAD_SIZE}"
        title = f"attention head size {size} is {problem}"
        evidence = {"head_size": Figure(size, BY_TENSORS), "attentions": Figure(len(ops), BY_PASS)}
        yield in_ops(facts, ops, title, evidence | time_evidence(facts, ops), above_limits(facts, ops))


@rule(
    "C403",
    "note",
    "SDPA calls with a dense mask tensor",
    advice="Pass is_causal=True if the mask is only causal and no mask if nothing is masked, or use flex_attention "
    "for other patterns: the FlashAttention kernel does not accept a mask tensor, so another kernel runs. A learned "
    "bias has to stay a tensor.",
    needs=(WHOLE_PASS,),
)
def masked(facts: ModelFacts) -> Iterator[RuleMatch]:
    """SDPA calls that get a dense mask."""
    masks = {op: mask for op in facts.ops_of(_FUSED) if (mask := operand_type(facts.kind(op), "attn_mask"))}
    if not masks:
        return
    shape = next(iter(masks.values())).shape
    title = f"{plural(len(masks), 'SDPA call')} with a dense {units.shape(shape)} mask"
    evidence = {"attentions": Figure(len(masks), BY_PASS)}
    yield in_ops(facts, masks, title, evidence | time_evidence(facts, masks), above_limits(facts, masks))
