"""Fused attention ops, and unfused attention: a query-key product, a softmax and a product with the values."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from msgspec import Struct

from assay.analysis.cost.formulas.einsum import labels
from assay.analysis.flow import DataFlow, ops_named
from assay.document.document import Document
from assay.document.dtypes import nbytes
from assay.document.rows import OpKind, TensorType

FUSED = frozenset(
    {
        "aten.scaled_dot_product_attention", "aten._native_multi_head_attention",
        "aten._transformer_encoder_layer_fwd", "aten._scaled_dot_product_flash_attention",
        "aten._scaled_dot_product_efficient_attention", "aten._scaled_dot_product_flash_attention_for_cpu",
        "higher_order.flex_attention",
    }
)  # fmt: skip
"""Fused attention ops."""

SOFTMAX = frozenset({"aten.softmax", "aten._softmax", "aten._safe_softmax"})
_EINSUM = "aten.einsum"
_PRODUCTS = frozenset({"aten.matmul", "aten.mm", "aten.bmm", "aten.baddbmm", _EINSUM})
_SUMMED = {"self": -1, "other": -2, "mat2": -2, "batch1": -1, "batch2": -2}
"""The dimension that a matrix product sums over, by the name of the operand."""
_COPIES = frozenset({"aten.to", "aten._to_copy", "aten.clone", "aten.contiguous", "aten.reshape", "aten.expand"})
_BEFORE = _COPIES | frozenset(
    f"aten.{name}{ending}" for name in ("mul", "div", "add", "sub", "masked_fill", "where") for ending in ("", "_")
)
"""Ops allowed between the first product and the softmax of plain attention; a soft cap (tanh) is not among them."""
_AFTER = _COPIES | frozenset({"aten.dropout", "aten.dropout_", "aten.nan_to_num", "aten.where", "aten.masked_fill"})
_STEPS = 8
"""At most this many ops between a product and the softmax: scaling, bias, mask, clamp, casts."""


class UnfusedAttention(Struct, frozen=True):
    """One unfused attention; ops are indices into `Document.ops`."""

    softmax: int
    between: tuple[int, ...]
    """Ops strictly between the first and the last product."""
    score_bytes: int
    """Bytes of the scores after the softmax."""
    plain: bool
    """Whether `between` contains only scaling, bias, mask and dropout, which fused ops support too, and nothing else
    uses the scores and weights, which fused ops do not return."""


def unfused_attention(document: Document) -> list[UnfusedAttention]:
    """Every unfused attention: a softmax between a product of two activations and a product with the values."""
    if not any(op.reads for op in document.ops):
        return []
    flow = DataFlow(document)
    attentions = []
    for index in ops_named(document, *SOFTMAX):
        before = _ops_before(document, flow, index)
        after = _ops_after(document, flow, index)
        if before is not None and after is not None:
            scores = _kind(document, index).outputs[0].type
            size = nbytes(prod(scores.shape), scores.dtype)
            plain = _all_named(document, before, _BEFORE) and _all_named(document, after, _AFTER)
            plain = plain and not _used_elsewhere(document, flow, index, before, after)
            attentions.append(UnfusedAttention(index, (*before, index, *after), size, plain))
    return attentions


def fused_attention(document: Document) -> list[int]:
    """The fused attention ops, as indices into `Document.ops`."""
    return ops_named(document, *FUSED)


def _all_named(document: Document, ops: Iterable[int], names: frozenset[str]) -> bool:
    return all(_kind(document, op).target.rpartition(".")[0] in names for op in ops)


def _ops_before(document: Document, flow: DataFlow, softmax: int) -> list[int] | None:
    """The ops between a product of two activations and the softmax; None if there is no such product."""
    shape = _kind(document, softmax).outputs[0].type.shape
    between: list[int] = []
    op = softmax
    for _ in range(_STEPS):
        writer = _source(document, flow, op, shape)
        if writer is None:
            return None
        if _is_product(_kind(document, writer)):
            return between
        between.append(writer)
        op = writer
    return None


def _source(document: Document, flow: DataFlow, op: int, shape: tuple[int, ...]) -> int | None:
    """The last op before `op` that wrote the operand of the scores' size."""
    size = prod(shape)
    row = document.ops[op]
    for operand, storage in zip(_kind(document, op).inputs, row.reads, strict=False):
        writers = [writer for writer in flow.writers.get(storage, []) if writer < op]
        if operand.role == "activation" and prod(operand.type.shape) == size and writers:
            return writers[-1]
    return None


def _ops_after(document: Document, flow: DataFlow, softmax: int) -> list[int] | None:
    """The ops between the softmax and the product that sums over its dimension; None if there is no such product."""
    shape = _kind(document, softmax).outputs[0].type.shape
    between: list[int] = []
    op = softmax
    for _ in range(_STEPS):
        storage = next(iter(document.ops[op].writes), None)
        readers = [reader for reader in flow.readers.get(storage, []) if reader > op] if storage is not None else []
        if any(_is_weighted_sum(document, reader, storage, softmax, bool(between)) for reader in readers):
            return between
        following = next((reader for reader in readers if _keeps_size(_kind(document, reader), shape)), None)
        if following is None:
            return None
        between.append(following)
        op = following
    return None


def _used_elsewhere(document: Document, flow: DataFlow, softmax: int, before: list[int], after: list[int]) -> bool:
    """Whether scores or weights outlive the pass, or an op outside the attention reads them and is used itself."""
    chain = {*before, softmax, *after}
    product = _source(document, flow, (softmax, *before)[-1], _kind(document, softmax).outputs[0].type.shape)
    made = [storage for op in (*chain, product) if op is not None for storage in document.ops[op].writes]
    others = {
        reader
        for storage in made
        for reader in flow.readers.get(storage, [])
        if reader not in chain and not _is_weighted_sum(document, reader, storage, softmax, copied=True)
    }
    outlives = any(document.storages[storage].died is None for storage in made)
    return outlives or any(_is_used(document, flow, reader) for reader in others)


def _is_used(document: Document, flow: DataFlow, op: int) -> bool:
    """Whether what an op makes outlives the pass, in one op or in those that read it; Python may read its value."""
    found, waiting = {op}, [op]
    while waiting:
        writes = document.ops[waiting.pop()].writes
        if not writes or any(document.storages[storage].died is None for storage in writes):
            return True
        following = {reader for storage in writes for reader in flow.readers.get(storage, [])} - found
        found |= following
        waiting += following
    return False


def _is_weighted_sum(document: Document, op: int, storage: int | None, softmax: int, copied: bool) -> bool:
    """Whether an op is a product that sums over the dimension of the softmax; `copied` if its strides may differ."""
    kind = _kind(document, op)
    scores = _kind(document, softmax)
    if not _is_product(kind):
        return False
    dim = scores.attributes.get("dim", -1)
    size, stride = scores.outputs[0].type.shape[dim], _strides(scores.outputs[0].type)[dim]
    weights = [at for at, read in enumerate(document.ops[op].reads[: len(kind.inputs)]) if read == storage]
    return any(
        kind.inputs[at].type.shape[each] == size and (copied or _strides(kind.inputs[at].type)[each] == stride)
        for at in weights
        for each in _summed_dims(kind, at)
    )


def _summed_dims(kind: OpKind, operand: int) -> list[int]:
    """The dimensions of one operand that a product sums over together with another operand."""
    if kind.target.rpartition(".")[0] != _EINSUM:
        rank = len(kind.inputs[operand].type.shape)
        return [_SUMMED[kind.inputs[operand].name]] if rank > 1 and kind.inputs[operand].name in _SUMMED else []
    if "equation" not in kind.attributes:
        return []
    terms, kept = labels(str(kind.attributes["equation"]), [len(one.type.shape) for one in kind.inputs])
    others = {index for at, term in enumerate(terms) for index in term if at != operand}
    return [dim for dim, index in enumerate(terms[operand]) if index in others - kept]


def _strides(tensor: TensorType) -> tuple[int, ...]:
    """The strides of a tensor, in elements."""
    return tensor.strides or tuple(prod(tensor.shape[at + 1 :]) for at in range(len(tensor.shape)))


def _keeps_size(kind: OpKind, shape: tuple[int, ...]) -> bool:
    """Whether the output has as many elements as `shape`: a cast, dropout, a copy."""
    return bool(kind.outputs) and prod(kind.outputs[0].type.shape) == prod(shape)


def _is_product(kind: OpKind) -> bool:
    if kind.target.rpartition(".")[0] not in _PRODUCTS:
        return False
    return sum(operand.role != "parameter" for operand in kind.inputs) >= 2


def _kind(document: Document, op: int) -> OpKind:
    return document.kinds[document.ops[op].kind]
