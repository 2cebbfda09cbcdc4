"""Bytes of parameters and buffers, tied ones counted once, and the parameters that are trained."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from assay.analysis.parameters import storage_owners
from assay.document.document import Document
from assay.document.dtypes import nbytes
from assay.document.roles import BUFFER, PARAMETER

ALL_TRAINED = "no parameter is trainable: gradients and optimizer state are computed as if all were"


class Weights(Struct, frozen=True):
    """Bytes of a model's parameters and buffers."""

    parameters: int
    buffers: int
    by_dtype: dict[str, int]
    """Bytes of both per dtype, largest first."""


class TrainedParameter(Struct, frozen=True):
    """One parameter that an optimizer updates."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in its own dtype."""
        return nbytes(self.elements, self.dtype)


def weights_of(document: Document) -> Weights:
    """Bytes of the parameters and buffers; several names or views of one storage count once."""
    sums = {PARAMETER: 0, BUFFER: 0}
    by_dtype: dict[str, int] = {}
    owners, ordered = storage_owners(document)
    for place, index in enumerate(owners):
        tensor = document.tensors[index]
        size = document.storages[place].bytes if ordered else tensor.bytes
        sums[tensor.role] = sums.get(tensor.role, 0) + size
        by_dtype[tensor.type.dtype] = by_dtype.get(tensor.type.dtype, 0) + size
    largest_first = dict(sorted(by_dtype.items(), key=lambda item: -item[1]))
    return Weights(sums[PARAMETER], sums[BUFFER], largest_first)


def trained(document: Document) -> tuple[list[TrainedParameter], tuple[str, ...]]:
    """The parameters an optimizer updates (all floating-point ones if none is trainable), and the assumptions."""
    parameters = [tensor for tensor in document.tensors if tensor.role == PARAMETER]
    chosen = [tensor for tensor in parameters if tensor.requires_grad]
    notes: tuple[str, ...] = ()
    if not chosen:
        chosen = [tensor for tensor in parameters if tensor.type.dtype.startswith(("float", "bfloat", "complex"))]
        notes = (ALL_TRAINED,) if chosen else ()
    return [TrainedParameter(tensor.type.shape, tensor.type.dtype) for tensor in chosen], notes
