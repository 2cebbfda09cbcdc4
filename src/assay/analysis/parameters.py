"""Counts of parameters and buffers; a tensor with several names counts once, in the first module that owns it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from assay.analysis.cost.reading import is_ragged, numel
from assay.document import tree
from assay.document.document import Document
from assay.document.roles import BUFFER, PARAMETER
from assay.document.rows import Tensor, TensorType
from assay.document.weights import TensorStatistics

Number = TypeVar("Number", int, float)


class TensorTotals(Struct, frozen=True):
    """Elements and bytes of a group of tensors; `elements` is None if a size is unknown."""

    elements: int | None
    bytes: int


class Parameters(Struct, frozen=True, omit_defaults=True):
    """The parameters and buffers of a model; null if unknown."""

    count: int | None
    """Elements of all parameters; tied ones count once."""
    trainable: int | None
    bytes: int | None
    by_dtype: dict[str, TensorTotals]
    """Parameters by dtype, most bytes first."""
    buffers: TensorTotals | None
    tied: list[tuple[str, ...]]
    """The names of each parameter that has more than one."""
    stored: TensorTotals | None = None
    """All tensors of the checkpoint, if only a checkpoint is known; it may not state which are parameters."""
    partial: bool = False
    """Whether files of the checkpoint could not be read, so that the totals cover only the rest."""


def parameters(document: Document) -> Parameters:
    """The parameters and buffers of `document`."""
    if not document.knows_tensors:
        return _stored_parameters(document)
    own = [tensor for tensor in document.tensors if tensor.role == PARAMETER]
    totals = tensor_totals(own)
    return Parameters(
        count=totals.elements,
        trainable=tensor_totals(tensor for tensor in own if tensor.requires_grad).elements,
        bytes=totals.bytes,
        by_dtype=_by_dtype(own),
        buffers=tensor_totals(tensor for tensor in document.tensors if tensor.role == BUFFER),
        tied=[tensor.names for tensor in own if len(tensor.names) > 1],
    )


def _stored_parameters(document: Document) -> Parameters:
    """The parameters and buffers of a checkpoint, unknown unless it states the roles of tensors."""
    rows = document.weights.tensors if document.weights is not None else []
    partial = document.weights is not None and document.weights.partial
    if not any(row.role for row in rows):
        return Parameters(None, None, None, stored_by_dtype(rows), None, [], stored(document), partial)
    own = [row for row in rows if row.role == PARAMETER]
    totals = _stored_totals(own)
    return Parameters(
        count=totals.elements,
        trainable=None,
        bytes=totals.bytes,
        by_dtype=stored_by_dtype(own),
        buffers=_stored_totals([row for row in rows if row.role == BUFFER]),
        tied=[row.names for row in own if len(row.names) > 1],
        stored=stored(document),
        partial=partial,
    )


def stored(document: Document) -> TensorTotals | None:
    """Elements and bytes of the tensors of a checkpoint; None if the weights were not read."""
    if document.weights is None:
        return None
    return _stored_totals(document.weights.tensors)


def _stored_totals(rows: Sequence[TensorStatistics]) -> TensorTotals:
    return TensorTotals(sum(row.count for row in rows), sum(row.bytes for row in rows))


def tensor_totals(tensors: Iterable[Tensor]) -> TensorTotals:
    """The total elements and bytes of `tensors`."""
    listed = list(tensors)
    return TensorTotals(
        sum_if_all_known(elements(tensor.type) for tensor in listed), sum(tensor.bytes for tensor in listed)
    )


def sum_if_all_known(values: Iterable[Number | None]) -> Number | None:
    """The sum, or None if any value is unknown."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known) if len(known) == len(every) else None


def sum_of_known(counts: Iterable[int | None]) -> int | None:
    """The sum of the known counts; None if all are unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def elements(type: TensorType) -> int | None:
    """The number of elements: `elements(TensorType((2, 3), "float32")) == 6`; None if the tensor is ragged."""
    return None if is_ragged(type) else numel(type)


def storage_owners(document: Document) -> tuple[list[int], bool]:
    """The tensors with their own storage, and whether the document's first storages are theirs in this order."""
    owners = [index for index, tensor in enumerate(document.tensors) if tensor.shares_storage_with is None]
    # A capture numbers the storages of the model first, in the order of its tensors.
    pairs = [(document.tensors[index], storage) for index, storage in zip(owners, document.storages, strict=False)]
    matches = all(storage.role == tensor.role and storage.bytes >= tensor.bytes for tensor, storage in pairs)
    return owners, matches and len(pairs) == len(owners)


def tensor_storages(document: Document) -> dict[int, int]:
    """The storage of each parameter and buffer, by tensor index; empty if the document does not have it."""
    owners, is_known = storage_owners(document)
    if not is_known:
        return {}
    storages = {index: storage for storage, index in enumerate(owners)}
    shared = [tensor.shares_storage_with for tensor in document.tensors]
    return {index: storages[index if other is None else other] for index, other in enumerate(shared)}


def first_holders(document: Document) -> list[list[int]]:
    """For each module, the tensors that no earlier module owns; so every tensor appears once."""
    visited: set[int] = set()
    result: list[list[int]] = [[] for _ in document.modules]
    for index in tree.preorder(document.modules):
        for tensor in document.modules[index].tensors.values():
            if tensor not in visited:
                visited.add(tensor)
                result[index].append(tensor)
    return result


def own_parameters(document: Document) -> list[list[Tensor]]:
    """For each module, the parameters that it owns directly and no earlier module owns."""
    tensors = document.tensors
    return [
        [tensors[index] for index in indices if tensors[index].role == PARAMETER]
        for indices in first_holders(document)
    ]


def subtree_parameters(document: Document, own: Sequence[Sequence[Tensor]]) -> list[tuple[int | None, int | None]]:
    """For each module, the parameters of its whole subtree: all of them, and the trainable ones; None if unknown.

    `own` is the result of `own_parameters`.
    """
    if not document.knows_tensors:
        return [(None, None)] * len(own)
    sums: list[tuple[int | None, int | None]] = [(0, 0)] * len(own)
    for index, tensors in enumerate(own):
        if tensors:
            trained = (tensor for tensor in tensors if tensor.requires_grad)
            sums[index] = tensor_totals(tensors).elements, tensor_totals(trained).elements
    for index in range(len(sums) - 1, -1, -1):
        parent = document.modules[index].parent
        if parent is not None:
            everything, trainable = zip(sums[parent], sums[index], strict=True)
            sums[parent] = sum_if_all_known(everything), sum_if_all_known(trainable)
    return sums


def stored_by_dtype(rows: Iterable[TensorStatistics]) -> dict[str, TensorTotals]:
    """The tensors of a checkpoint by dtype, most bytes first."""
    groups: dict[str, list[TensorStatistics]] = {}
    for row in rows:
        groups.setdefault(row.dtype, []).append(row)
    sizes = {dtype: _stored_totals(members) for dtype, members in groups.items()}
    return dict(sorted(sizes.items(), key=lambda item: -item[1].bytes))


def _by_dtype(tensors: list[Tensor]) -> dict[str, TensorTotals]:
    groups: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.type.dtype, []).append(tensor)
    sizes = {dtype: tensor_totals(members) for dtype, members in groups.items()}
    return dict(sorted(sizes.items(), key=lambda item: -item[1].bytes))
