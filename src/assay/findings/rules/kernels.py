"""Rules about shapes that fast kernels handle badly: misaligned sizes, grouped convolutions, large kernels."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec.structs import replace

from assay import units
from assay.analysis.convolutions import is_plain_convolution
from assay.analysis.flow import operand_type
from assay.document.dtypes import BITS, nbytes
from assay.document.provenance import Figure
from assay.document.rows import OpKind
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, BY_TENSORS, ModelFacts, share_of
from assay.findings.gains import above_limits, scaled_ops
from assay.findings.needs import WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.findings.time_spent import share_of_time, time_evidence, time_text
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
GROUPED_SHARE = 0.05
GROUPED_TIME = 0.02
GROUPED_RATIO = 1.5
LOW_INTENSITY = 16
"""FLOPs per byte below which convolutions are memory-bound on nearly every device."""
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
        f"layers with {time_text(facts, ops) or f'{units.share(work, flops)} of the FLOPs'} have sizes that are not "
        f"multiples of {ALIGNED_BYTES} bytes ({', '.join(map(str, sizes[:4]))})"
    )
    evidence = {"flops": Figure(work, BY_FORMULA), "share_of_flops": share_of(work, flops, BY_FORMULA)}
    yield in_ops(facts, ops, title, evidence | time_evidence(facts, ops), above_limits(facts, ops))


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
        took = time_text(facts, ops)
        what = f"the output projection{f', {took},' if took else ''}"
        title = f"{what} has {units.exact(rows)} rows, {padded - rows} short of a multiple of {TILE}"
        evidence = {
            "rows": Figure(rows, BY_TENSORS),
            "padded_rows": Figure(padded, BY_TENSORS),
            "bytes_added": Figure(nbytes((padded - rows) * width, dtypes[rows, width]), BY_TENSORS),
            "share_of_flops": share_of(work, facts.cost.forward.flops or 0, BY_FORMULA),
            **time_evidence(facts, ops),
        }
        yield in_ops(facts, ops, title, evidence, above_limits(facts, ops))


@rule(
    "C303",
    "note",
    "grouped and depthwise convolutions that take time out of proportion to their FLOPs",
    advice="Try channels_last, a fused block (torch.compile) or fewer and wider groups: depthwise and grouped "
    "convolutions are memory-bound, so reducing their FLOPs does not help.",
    needs=(WHOLE_PASS,),
)
def grouped(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Grouped convolutions whose share of the time, or of the bytes at few FLOPs per byte, is large."""
    ops = [op for op in facts.ops_where(is_plain_convolution) if facts.kind(op).attributes.get("groups", 1) > 1]
    moved, work, flops = facts.bytes_of(ops), facts.flops_of(ops), facts.cost.forward.flops or 0
    spent = share_of_time(facts, ops)
    if not moved or not flops or not _are_inefficient(moved / facts.bytes, work / flops, work / moved, spent):
        return
    by_bytes = f"{units.share(moved, facts.bytes)} of the bytes and {units.ratio(work / moved)} FLOPs per byte"
    by_time = f"{time_text(facts, ops)} for {units.share(work, flops)} of the FLOPs"
    title = f"{plural(len(ops), 'grouped convolution')} with {by_bytes if spent is None else by_time}"
    evidence = {
        "convolutions": Figure(len(ops), BY_PASS),
        "share_of_flops": share_of(work, flops, BY_FORMULA),
        "share_of_bytes": share_of(moved, facts.bytes, BY_FORMULA),
        "flops_per_byte": Figure(work / moved, BY_FORMULA),
        **time_evidence(facts, ops),
    }
    gain = above_limits(facts, ops)
    match = in_ops(facts, ops, title, evidence, gain)
    recoverable = gain.share.value is not None and gain.share.value >= GROUPED_TIME
    yield replace(match, severity="advice") if recoverable else match


def _are_inefficient(share_of_bytes: float, share_of_flops: float, intensity: float, spent: float | None) -> bool:
    """Whether grouped convolutions take more time than their FLOPs explain; by bytes if they were not timed."""
    if spent is not None:
        return spent >= GROUPED_TIME and spent >= GROUPED_RATIO * share_of_flops
    return share_of_bytes >= GROUPED_SHARE and intensity < LOW_INTENSITY


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
    done = time_text(facts, ops)
    what = f"take {done}" if done else f"do {units.share(work, flops)} of the FLOPs"
    title = f"convolutions with kernels up to {units.shape(largest)} {what}"
    evidence = {
        "kernel_elements": Figure(prod(largest), BY_TENSORS),
        "flops": Figure(work, BY_FORMULA),
        "share_of_flops": share_of(work, flops, BY_FORMULA),
        **time_evidence(facts, ops),
    }
    saved = sum(facts.flops_of([op]) * _saved_by_stacking(facts.kind(op)) for op in ops) / work
    gain = scaled_ops(facts, ops, saved, "stacks of 3×3 kernels, with time in proportion to FLOPs")
    yield in_ops(facts, ops, title, evidence, gain)


def _saved_by_stacking(kind: OpKind) -> float:
    """The share of the FLOPs that a stack of kernels of size 3 with the same receptive field saves."""
    weight = operand_type(kind, "weight")
    kernel = weight.shape[2:] if weight is not None else (3,)
    stack = (max(kernel) - 1) / 2 * prod(3 for _ in kernel)
    return max(1 - stack / prod(kernel), 0.0)


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
