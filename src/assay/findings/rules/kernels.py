"""Rules about shapes that fast kernels handle badly: misaligned sizes, grouped convolutions, large kernels."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from assay import units
from assay.analysis.convolutions import is_plain_convolution
from assay.analysis.flow import operand_type
from assay.document.dtypes import BITS, nbytes
from assay.document.provenance import Figure
from assay.document.rows import OpKind
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, BY_TENSORS, ModelFacts, share_of
from assay.findings.needs import WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.messages import plural

ALIGNED_BYTES = 16
"""Bytes that tensor cores load at a time along a row."""
NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")
"""Dtypes whose matmuls run on tensor cores by default; float32 does so only if TF32 is enabled."""
MIN_SIZE = 16
"""Sizes below this are not worth aligning."""
MIN_SHARE = 0.01
MIN_VOCABULARY = 8192
TILE = 64
GROUPED_SHARE = 0.2
GROUPED_RATIO = 4
MIN_LARGE_KERNEL = 7
LARGE_SHARE = 0.2
MAX_IMAGE_CHANNELS = 4
"""With at most this many input channels (image stems), one large kernel is cheaper than several small ones."""


@rule(
    "C301",
    "advice",
    "layer sizes that are not aligned for tensor cores",
    advice="Make feature and channel counts multiples of 16 bytes (8 elements for 16-bit dtypes, 16 for 8-bit "
    "dtypes): other sizes fall back to slower kernels or are padded on every call.",
    needs=(WHOLE_PASS,),
)
def unaligned(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Layers in a 16-bit or 8-bit dtype with misaligned sizes that do at least 1 % of the FLOPs."""
    flops = facts.cost.forward.flops or 0
    misaligned = {
        index: sizes
        for index, kind in enumerate(facts.document.kinds)
        if (sizes := _misaligned_sizes(kind))
        and (facts.cost.kinds[index].flops or 0) * facts.executions[index] >= MIN_SHARE * flops
    }
    ops = [index for index, op in enumerate(facts.document.ops) if op.kind in misaligned]
    if not ops:
        return
    work = facts.flops_of(ops)
    sizes = sorted({size for each in misaligned.values() for size in each})
    title = (
        f"layers with {units.share(work, flops)} of the FLOPs have sizes that are not multiples of {ALIGNED_BYTES} "
        f"bytes ({', '.join(map(str, sizes[:4]))})"
    )
    evidence = {"flops": Figure(work, BY_FORMULA), "share_of_flops": share_of(work, flops, BY_FORMULA)}
    yield in_ops(facts, ops, title, evidence)


def _misaligned_sizes(kind: OpKind) -> list[int]:
    """The misaligned feature or channel counts of a layer's weight; vocabulary sizes have their own rule."""
    weight = operand_type(kind, "weight")
    if weight is None or weight.dtype not in NARROW or kind.attributes.get("groups", 1) != 1:
        return []
    if not (is_plain_convolution(kind) or kind.target == "aten.linear.default"):
        return []
    multiple = ALIGNED_BYTES * 8 // BITS[weight.dtype]
    return [size for size in weight.shape[:2] if MIN_SIZE <= size < MIN_VOCABULARY and size % multiple]


@rule(
    "C302",
    "advice",
    "a vocabulary size that is not a multiple of 64",
    advice="Pad the embedding table and the output projection to a multiple of 64 (in transformers: "
    "resize_token_embeddings with pad_to_multiple_of=64) and ignore the added logits: the matmul then fits the tiles "
    "of tensor cores.",
    needs=(WHOLE_PASS,),
)
def vocabulary(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Output projections onto a large vocabulary whose size is not a multiple of 64."""
    by_size: dict[tuple[int, int], list[int]] = {}
    dtypes: dict[tuple[int, int], str] = {}
    for op in facts.ops_of("aten.linear"):
        weight = operand_type(facts.kind(op), "weight")
        if (
            weight is not None
            and len(weight.shape) == 2
            and weight.shape[0] >= MIN_VOCABULARY
            and weight.shape[0] % TILE
        ):
            size = weight.shape[0], weight.shape[1]
            if size[0] > 2 * size[1]:
                by_size.setdefault(size, []).append(op)
                dtypes[size] = weight.dtype
    for (rows, width), ops in by_size.items():
        padded = -(-rows // TILE) * TILE
        work = facts.flops_of(ops)
        title = f"the output projection has {units.exact(rows)} rows, {padded - rows} short of a multiple of {TILE}"
        evidence = {
            "rows": Figure(rows, BY_TENSORS),
            "padded_rows": Figure(padded, BY_TENSORS),
            "bytes_added": Figure(nbytes((padded - rows) * width, dtypes[rows, width]), BY_TENSORS),
            "share_of_flops": share_of(work, facts.cost.forward.flops or 0, BY_FORMULA),
        }
        yield in_ops(facts, ops, title, evidence)


@rule(
    "C303",
    "note",
    "grouped convolutions with a large share of the bytes but few FLOPs",
    advice="Try channels_last, a fused block (torch.compile) or fewer and wider groups: depthwise and grouped "
    "convolutions are memory-bound, so reducing their FLOPs does not help.",
    needs=(WHOLE_PASS,),
)
def grouped(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Grouped convolutions whose share of the bytes is at least four times their share of the FLOPs."""
    ops = [op for op in facts.ops_where(is_plain_convolution) if facts.kind(op).attributes.get("groups", 1) > 1]
    moved, work, flops = facts.bytes_of(ops), facts.flops_of(ops), facts.cost.forward.flops or 0
    if not facts.bytes or not flops or moved < GROUPED_SHARE * facts.bytes:
        return
    if moved / facts.bytes < GROUPED_RATIO * work / flops:
        return
    title = (
        f"{units.share(moved, facts.bytes)} of the bytes but {units.share(work, flops)} of the FLOPs are in "
        f"{plural(len(ops), 'grouped convolution')}"
    )
    evidence = {
        "convolutions": Figure(len(ops), BY_PASS),
        "share_of_flops": share_of(work, flops, BY_FORMULA),
        "share_of_bytes": share_of(moved, facts.bytes, BY_FORMULA),
    }
    yield in_ops(facts, ops, title, evidence)


@rule(
    "C304",
    "advice",
    "dense convolutions with large kernels",
    advice="Stack two or three 3×3 convolutions instead, which cover a similar receptive field with fewer FLOPs, or "
    "use a large depthwise kernel followed by a 1×1 convolution. A stride or a smaller input also helps.",
    needs=(WHOLE_PASS,),
)
def large_kernels(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Dense convolutions with kernels of at least 7×7 that do a large share of the FLOPs."""
    flops = facts.cost.forward.flops or 0
    ops = facts.ops_where(_is_large)
    work = facts.flops_of(ops)
    if not ops or not flops or work < LARGE_SHARE * flops:
        return
    weights = [weight for op in ops if (weight := operand_type(facts.kind(op), "weight")) is not None]
    largest = max(weights, key=lambda weight: prod(weight.shape[2:])).shape[2:]
    title = f"convolutions with kernels up to {units.shape(largest)} do {units.share(work, flops)} of the FLOPs"
    evidence = {
        "kernel_elements": Figure(prod(largest), BY_TENSORS),
        "flops": Figure(work, BY_FORMULA),
        "share_of_flops": share_of(work, flops, BY_FORMULA),
    }
    yield in_ops(facts, ops, title, evidence)


def _is_large(kind: OpKind) -> bool:
    """Whether it is a dense 2-D or 3-D convolution that is large in every dimension and does not cut patches."""
    weight = operand_type(kind, "weight")
    if weight is None or len(weight.shape) < 4 or not is_plain_convolution(kind):
        return False
    if kind.attributes.get("groups", 1) != 1:
        return False
    channels, *kernel = weight.shape[1:]
    stride = kind.attributes.get("stride") or [1]
    # A stride as large as the kernel cuts patches: every input is used once, so nothing can be saved.
    return channels > MAX_IMAGE_CHANNELS and min(kernel) >= MIN_LARGE_KERNEL and max(stride) < min(kernel)
