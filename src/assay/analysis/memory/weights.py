"""Parameters and buffers: what they hold, tied ones once, and which of them are trained."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from assay.analysis.parameters import BUFFER, PARAMETER, storage_owners
from assay.document.document import Document
from assay.document.dtypes import nbytes

ALL_TRAINED = "no parameter is trainable: gradients and optimizer state are as if all were"


class Weights(Struct, frozen=True):
    """Bytes that the model itself holds."""

    parameters: int
    buffers: int
    by_dtype: dict[str, int]
    """Of both together, largest first."""


class TrainedParameter(Struct, frozen=True):
    """One parameter that an optimizer updates."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """What it takes in its own dtype."""
        return nbytes(self.elements, self.dtype)


def weights_of(document: Document) -> Weights:
    """What the parameters and buffers take; several names or views of one storage count once."""
    sums = {PARAMETER: 0, BUFFER: 0}
    by_dtype: dict[str, int] = {}
    owners, told = storage_owners(document)
    for place, index in enumerate(owners):
        tensor = document.tensors[index]
        size = document.storages[place].bytes if told else tensor.bytes
        sums[tensor.role] = sums.get(tensor.role, 0) + size
        by_dtype[tensor.type.dtype] = by_dtype.get(tensor.type.dtype, 0) + size
    ordered = dict(sorted(by_dtype.items(), key=lambda item: -item[1]))
    return Weights(sums[PARAMETER], sums[BUFFER], ordered)


def trained(document: Document) -> tuple[list[TrainedParameter], tuple[str, ...]]:
    """The parameters an optimizer updates, and what had to be assumed; all floating ones where none is trainable."""
    parameters = [tensor for tensor in document.tensors if tensor.role == PARAMETER]
    chosen = [tensor for tensor in parameters if tensor.requires_grad]
    notes: tuple[str, ...] = ()
    if not chosen:
        chosen = [tensor for tensor in parameters if tensor.type.dtype.startswith(("float", "bfloat", "complex"))]
        notes = (ALL_TRAINED,) if chosen else ()
    return [TrainedParameter(tensor.type.shape, tensor.type.dtype) for tensor in chosen], notes
