"""Attention that is written out: a product of queries and keys, a softmax, a product with the values."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from msgspec import Struct

from assay.analysis.flow import DataFlow, ops_named
from assay.document.document import Document
from assay.document.dtypes import nbytes
from assay.document.rows import OpKind

FUSED = frozenset(
    {
        "aten.scaled_dot_product_attention", "aten._native_multi_head_attention",
        "aten._transformer_encoder_layer_fwd", "aten._scaled_dot_product_flash_attention",
        "aten._scaled_dot_product_efficient_attention", "aten._scaled_dot_product_flash_attention_for_cpu",
        "higher_order.flex_attention",
    }
)  # fmt: skip
"""Operations that are a whole attention."""

_SOFTMAX = frozenset({"aten.softmax", "aten._softmax", "aten._safe_softmax"})
_PRODUCTS = frozenset({"aten.matmul", "aten.bmm", "aten.baddbmm", "aten.einsum"})
_COPIES = frozenset({"aten.to", "aten._to_copy", "aten.clone", "aten.contiguous", "aten.reshape", "aten.expand"})
_BEFORE = _COPIES | frozenset(
    f"aten.{name}{ending}" for name in ("mul", "div", "add", "sub", "masked_fill", "where") for ending in ("", "_")
)
"""What may stand between the first product and the softmax of plain attention; a soft cap (tanh) may not."""
_AFTER = _COPIES | frozenset({"aten.dropout", "aten.dropout_", "aten.nan_to_num", "aten.where", "aten.masked_fill"})
_STEPS = 8
"""Operations between a product and the softmax: scaling, bias, mask, clamp, casts."""


class UnfusedAttention(Struct, frozen=True):
    """One attention; operations are indices into `Document.ops`."""

    softmax: int
    between: tuple[int, ...]
    """From the first product, which is left out, to the last, which is too."""
    score_bytes: int
    """Of the scores as the softmax makes them."""
    plain: bool
    """Whether all between is scaling, bias, mask and dropout, which a fused operation has too."""


def attention_by_hand(document: Document) -> list[UnfusedAttention]:
    """Every softmax whose scores come from a product of two activations and weigh another's rows."""
    if not any(op.reads for op in document.ops):
        return []
    flow = DataFlow(document)
    found = []
    for index in ops_named(document, *_SOFTMAX):
        before = _back(document, flow, index)
        after = _on(document, flow, index)
        if before is not None and after is not None:
            scores = _kind(document, index).outputs[0].type
            size = nbytes(prod(scores.shape), scores.dtype)
            plain = _all_named(document, before, _BEFORE) and _all_named(document, after, _AFTER)
            found.append(UnfusedAttention(index, (*before, index, *after), size, plain))
    return found


def fused_attention(document: Document) -> list[int]:
    """The operations that are a whole attention."""
    return ops_named(document, *FUSED)


def _all_named(document: Document, ops: Iterable[int], names: frozenset[str]) -> bool:
    return all(_kind(document, op).target.rpartition(".")[0] in names for op in ops)


def _back(document: Document, flow: DataFlow, softmax: int) -> list[int] | None:
    """The operations from a product of two activations to the softmax; None where there is no such product."""
    shape = _kind(document, softmax).outputs[0].type.shape
    passed: list[int] = []
    at = softmax
    for _ in range(_STEPS):
        maker = _source(document, flow, at, shape)
        if maker is None:
            return None
        if _isprod(_kind(document, maker)):
            return passed
        passed.append(maker)
        at = maker
    return None


def _source(document: Document, flow: DataFlow, op: int, shape: tuple[int, ...]) -> int | None:
    """What made the operand of the scores' size: the last that wrote it before this one."""
    size = prod(shape)
    row = document.ops[op]
    for operand, storage in zip(_kind(document, op).inputs, row.reads, strict=False):
        makers = [maker for maker in flow.makers.get(storage, []) if maker < op]
        if operand.role == "activation" and prod(operand.type.shape) == size and makers:
            return makers[-1]
    return None


def _on(document: Document, flow: DataFlow, softmax: int) -> list[int] | None:
    """The operations from the softmax to a product that it is the first operand of; None where there is none."""
    shape = _kind(document, softmax).outputs[0].type.shape
    passed: list[int] = []
    at = softmax
    for _ in range(_STEPS):
        storage = next(iter(document.ops[at].writes), None)
        readers = [reader for reader in flow.readers.get(storage, []) if reader > at] if storage is not None else []
        product = next((reader for reader in readers if _weighs(document, reader, storage, shape)), None)
        if product is not None:
            return passed
        following = next((reader for reader in readers if _keeps(_kind(document, reader), shape)), None)
        if following is None:
            return None
        passed.append(following)
        at = following
    return None


def _weighs(document: Document, op: int, storage: int | None, shape: tuple[int, ...]) -> bool:
    """Whether a product sums over the scores' last dimension."""
    kind, reads = _kind(document, op), document.ops[op].reads
    if not _isprod(kind) or not reads or reads[0] != storage:
        return False
    scores = kind.inputs[0].type.shape
    values = kind.inputs[1].type.shape
    return bool(scores) and scores[-1] == shape[-1] and shape[-1] in values[-2:]


def _keeps(kind: OpKind, shape: tuple[int, ...]) -> bool:
    """Whether it makes something of the same size: a cast, dropout, a copy."""
    return bool(kind.outputs) and prod(kind.outputs[0].type.shape) == prod(shape)


def _isprod(kind: OpKind) -> bool:
    if kind.target.rpartition(".")[0] not in _PRODUCTS:
        return False
    return sum(operand.role != "parameter" for operand in kind.inputs) >= 2


def _kind(document: Document, op: int) -> OpKind:
    return document.kinds[document.ops[op].kind]
