"""Sizes and forms that fast kernels do not like: alignment, grouped and large convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from assay import units
from assay.analysis.flow import operand_type
from assay.document.dtypes import BITS, nbytes
from assay.document.provenance import Figure
from assay.document.rows import OpKind
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, BY_TENSORS, ModelFacts, part
from assay.findings.needs import WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops

ALIGNED_BYTES = 16
"""What tensor cores load at once along a row."""
NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")
"""Types whose products tensor cores do; float32 goes there only when asked."""
SMALL = 16
"""Sizes below this are not worth aligning."""
MATTERS = 0.01
VOCABULARY = 8192
TILE = 64
GROUPED_SHARE = 0.2
GROUPED_RATIO = 4
LARGE = 7
LARGE_SHARE = 0.2
IMAGE_CHANNELS = 4
"""A stem over so few channels costs less in one step than in several."""
_CONVOLUTIONS = ("aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution")


@rule(
    "C301",
    "advice",
    "matrix sizes that tensor cores have to pad",
    advice="Make features and channels multiples of 16 bytes (8 for 16-bit types, 16 for 8-bit ones): other sizes "
    "fall back to slower kernels or are padded on every call.",
    needs=(WHOLE_PASS,),
)
def unaligned(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Layers in a narrow dtype with sizes that are no multiple of 16 bytes, where they do a part of the work."""
    flops = facts.cost.forward.flops or 0
    odd = {
        index: sizes
        for index, kind in enumerate(facts.document.kinds)
        if (sizes := _odd_sizes(kind))
        and (facts.cost.kinds[index].flops or 0) * facts.executions[index] >= MATTERS * flops
    }
    ops = [index for index, op in enumerate(facts.document.ops) if op.kind in odd]
    if not ops:
        return
    work = facts.flops_of(ops)
    sizes = sorted({size for found in odd.values() for size in found})
    title = (
        f"sizes {', '.join(map(str, sizes[:4]))} are no multiples of {ALIGNED_BYTES} bytes, in layers with "
        f"{units.share(work, flops)} of the FLOPs"
    )
    evidence = {"flops": Figure(work, BY_FORMULA), "share_of_flops": part(work, flops, BY_FORMULA)}
    yield in_ops(facts, ops, title, evidence)


def _odd_sizes(kind: OpKind) -> list[int]:
    """The sizes of a layer's matrix that are not aligned; those of a vocabulary have a rule of their own."""
    weight = operand_type(kind, "weight")
    if weight is None or weight.dtype not in NARROW or kind.attributes.get("groups", 1) != 1:
        return []
    if kind.target.rpartition(".")[0] not in ("aten.linear", *_CONVOLUTIONS):
        return []
    multiple = ALIGNED_BYTES * 8 // BITS[weight.dtype]
    return [size for size in weight.shape[:2] if SMALL <= size < VOCABULARY and size % multiple]


@rule(
    "C302",
    "advice",
    "a vocabulary that is no multiple of 64",
    advice="Pad the table and the output projection to a multiple of 64 (in transformers: "
    "resize_token_embeddings with pad_to_multiple_of=64) and ignore the added logits: the product then fits the "
    "tiles of matrix units.",
    needs=(WHOLE_PASS,),
)
def vocabulary(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Output projections onto a large number of classes that tiles do not divide."""
    by_size: dict[tuple[int, int], list[int]] = {}
    dtypes: dict[tuple[int, int], str] = {}
    for op in facts.ops_of("aten.linear"):
        weight = operand_type(facts.kind(op), "weight")
        if weight is not None and len(weight.shape) == 2 and weight.shape[0] >= VOCABULARY and weight.shape[0] % TILE:
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
            "share_of_flops": part(work, facts.cost.forward.flops or 0, BY_FORMULA),
        }
        yield in_ops(facts, ops, title, evidence)


@rule(
    "C303",
    "note",
    "grouped convolutions that move far more than they calculate",
    advice="Depthwise and grouped convolutions are bound by memory: channels_last, a fused block (torch.compile), or "
    "fewer and wider groups help; fewer FLOPs do not.",
    needs=(WHOLE_PASS,),
)
def grouped(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Convolutions in groups, their share of bytes against their share of FLOPs."""
    ops = [op for op in facts.ops_of(*_CONVOLUTIONS) if facts.kind(op).attributes.get("groups", 1) > 1]
    moved, work, flops = facts.bytes_of(ops), facts.flops_of(ops), facts.cost.forward.flops or 0
    if not facts.bytes or not flops or moved < GROUPED_SHARE * facts.bytes:
        return
    if moved / facts.bytes < GROUPED_RATIO * work / flops:
        return
    title = (
        f"{len(ops)} grouped convolutions do {units.share(work, flops)} of the FLOPs and move "
        f"{units.share(moved, facts.bytes)} of the bytes"
    )
    evidence = {
        "convolutions": Figure(len(ops), BY_PASS),
        "share_of_flops": part(work, flops, BY_FORMULA),
        "share_of_bytes": part(moved, facts.bytes, BY_FORMULA),
    }
    yield in_ops(facts, ops, title, evidence)


@rule(
    "C304",
    "advice",
    "dense convolutions with large kernels",
    advice="Two or three stacked 3×3 convolutions see as far for fewer FLOPs; a depthwise large kernel followed by a "
    "1×1 convolution costs a fraction. A stride or a smaller input before it helps as well.",
    needs=(WHOLE_PASS,),
)
def large_kernels(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Kernels of at least 7×7 over all channels that do a large part of the FLOPs."""
    flops = facts.cost.forward.flops or 0
    ops = [op for op in facts.ops_of(*_CONVOLUTIONS) if _is_large(facts.kind(op))]
    work = facts.flops_of(ops)
    if not ops or not flops or work < LARGE_SHARE * flops:
        return
    weights = [weight for op in ops if (weight := operand_type(facts.kind(op), "weight")) is not None]
    largest = max(weights, key=lambda weight: prod(weight.shape[2:])).shape[2:]
    title = f"convolutions with kernels up to {units.shape(largest)} do {units.share(work, flops)} of the FLOPs"
    evidence = {
        "kernel_elements": Figure(prod(largest), BY_TENSORS),
        "flops": Figure(work, BY_FORMULA),
        "share_of_flops": part(work, flops, BY_FORMULA),
    }
    yield in_ops(facts, ops, title, evidence)


def _is_large(kind: OpKind) -> bool:
    """A kernel of two or three dimensions, all of them large, without gaps, over all channels and no patches."""
    weight = operand_type(kind, "weight")
    if weight is None or len(weight.shape) < 4 or kind.attributes.get("groups", 1) != 1:
        return False
    channels, *kernel = weight.shape[1:]
    stride = kind.attributes.get("stride") or [1]
    # A stride as large as the kernel cuts patches: each input is used once, so there is nothing to save.
    return channels > IMAGE_CHANNELS and min(kernel) >= LARGE and max(stride) < min(kernel)
