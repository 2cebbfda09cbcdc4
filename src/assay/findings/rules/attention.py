"""How attention is written, and whether a fused kernel can run it."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.attention import attention_by_hand
from assay.analysis.flow import operand_type
from assay.document.provenance import Figure
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, BY_TENSORS, ModelFacts, part
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.messages import plural

HEAD_MULTIPLE = 8
LARGEST_HEAD = 256
_FUSED = "aten.scaled_dot_product_attention"


@rule(
    "C401",
    "advice",
    "attention written as two products around a softmax",
    advice="torch.nn.functional.scaled_dot_product_attention (in transformers attn_implementation='sdpa') computes "
    "the same in one kernel that never writes the scores to memory; biases and masks go in as attn_mask. "
    "nn.MultiheadAttention does so with need_weights=False.",
    needs=(WHOLE_PASS, FLOW),
)
def by_hand(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Softmaxes between two products, and what their scores take."""
    found = [each for each in attention_by_hand(facts.document) if each.plain]
    if not found:
        return
    largest = max(each.score_bytes for each in found)
    moved = facts.bytes_of({op for each in found for op in each.between})
    title = (
        f"attention is written by hand ({plural(len(found), 'time')} a pass), with scores of {units.size(largest)}"
    )
    evidence = {
        "attentions": Figure(len(found), BY_PASS),
        "score_bytes": Figure(largest, BY_TENSORS),
        "bytes_between_products": Figure(moved, BY_FORMULA),
        "share_of_bytes": part(moved, facts.bytes, BY_FORMULA),
    }
    yield in_ops(facts, (each.softmax for each in found), title, evidence)


@rule(
    "C402",
    "advice",
    "attention heads of a size that fused kernels do not take",
    advice="Fused attention wants heads of a multiple of 8 and at most 256: others are padded, or run on kernels "
    "that write the scores to memory. 64 and 128 are fastest.",
    needs=(WHOLE_PASS,),
)
def head_size(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Fused attention with heads that are no multiple of 8, or very large."""
    by_size: dict[int, list[int]] = {}
    for op in facts.ops_of(_FUSED):
        query = operand_type(facts.kind(op), "query")
        size = query.shape[-1] if query is not None and query.shape else 0
        if size % HEAD_MULTIPLE or size > LARGEST_HEAD:
            by_size.setdefault(size, []).append(op)
    for size, ops in by_size.items():
        title = (
            f"attention heads have {size} features, which is "
            f"{'no multiple of 8' if size % HEAD_MULTIPLE else f'more than {LARGEST_HEAD}'}"
        )
        evidence = {"head_size": Figure(size, BY_TENSORS), "attentions": Figure(len(ops), BY_PASS)}
        yield in_ops(facts, ops, title, evidence)


@rule(
    "C403",
    "note",
    "fused attention that is given a mask as a tensor",
    advice="The flash kernel takes no mask tensor, so another one runs. Pass is_causal=True where the mask is only "
    "causal, none where nothing is masked, or flex_attention for other patterns; a bias "
    "that is learned has to be a tensor.",
    needs=(WHOLE_PASS,),
)
def masked(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Fused attention with a dense mask."""
    masks = {op: mask for op in facts.ops_of(_FUSED) if (mask := operand_type(facts.kind(op), "attn_mask"))}
    if not masks:
        return
    shape = next(iter(masks.values())).shape
    title = f"{plural(len(masks), 'attention')} with a mask of {units.shape(shape)} given as a tensor"
    yield in_ops(facts, masks, title, {"attentions": Figure(len(masks), BY_PASS)})
