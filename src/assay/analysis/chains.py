"""Chains of pointwise ops that one kernel could compute without writing the results in between."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from assay.analysis.cost import categories
from assay.analysis.flow import DataFlow, is_view
from assay.document.cost import Cost
from assay.document.document import Document
from assay.document.dtypes import nbytes
from assay.document.rows import OpKind

_POINTWISE = (categories.ELEMENT_WISE, categories.ACTIVATION, categories.NORMALIZATION)
_CASTS = ("aten.to", "aten._to_copy")


class PointwiseChain(Struct, frozen=True):
    """Pointwise ops of one size, each of which but the last is read only by another one."""

    ops: tuple[int, ...]
    """Indices into `Document.ops`, in execution order."""
    between_bytes: int
    """Bytes of the results inside the chain, each written once and read once."""


def pointwise_chains(document: Document, cost: Cost, flow: DataFlow) -> list[PointwiseChain]:
    """The longest chains of at least two ops, in execution order."""
    fusable = [_is_fusable(kind, cost.kinds[index].category) for index, kind in enumerate(document.kinds)]
    chains: dict[int, PointwiseChain] = {}
    for index, op in enumerate(document.ops):
        if not fusable[op.kind]:
            continue
        ops, between = [index], 0
        for producer, size in _producers(document, flow, index):
            if producer in chains:
                before = chains.pop(producer)
                ops, between = [*before.ops, *ops], between + before.between_bytes + size
        chains[index] = PointwiseChain(tuple(sorted(ops)), between)
    return [chain for chain in chains.values() if len(chain.ops) > 1]


def _is_fusable(kind: OpKind, category: str) -> bool:
    """Whether it is a pointwise op or a cast that computes something."""
    pointwise = category in _POINTWISE or kind.target.rpartition(".")[0] in _CASTS
    return pointwise and len(kind.outputs) == 1 and not is_view(kind)


def _producers(document: Document, flow: DataFlow, index: int) -> Iterator[tuple[int, int]]:
    """The ops whose results only this op reads, if they are as large as its own result, each with its bytes."""
    op = document.ops[index]
    kind = document.kinds[op.kind]
    size = prod(kind.outputs[0].type.shape)
    operands = dict(zip(op.reads, kind.inputs, strict=False))
    for storage, operand in operands.items():
        writer = max((each for each in flow.writers.get(storage, []) if each < index), default=None)
        if writer is None or prod(operand.type.shape) != size or _result_size(document, writer) != size:
            continue
        if _reads_alone(document, flow, storage, writer, index):
            yield writer, nbytes(size, operand.type.dtype)


def _result_size(document: Document, op: int) -> int | None:
    """Elements of the op's first result; None if it has none."""
    outputs = document.kinds[document.ops[op].kind].outputs
    return prod(outputs[0].type.shape) if outputs else None


def _reads_alone(document: Document, flow: DataFlow, storage: int, writer: int, reader: int) -> bool:
    """Whether only `reader` reads what `writer` wrote, and the model does not return it."""
    overwritten = next((each for each in flow.writers[storage] if each > writer), None)
    last = len(document.ops) if overwritten is None else overwritten
    readers = [each for each in flow.readers.get(storage, []) if writer < each <= last]
    kept = overwritten is None and document.storages[storage].died is None
    return readers == [reader] and not kept
