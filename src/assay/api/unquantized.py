"""What the figures of a folder describe whose config names a quantization method: the model without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from assay.document.roles import PARAMETER
from assay.document.rows import Tensor
from assay.sources.opened import Model
from assay.sources.stored_names import quantization_of


def unquantized(model: Model, tensors: Iterable[Tensor]) -> tuple[str, ...]:
    """The assumption about a model that was built without its quantized weights; empty if it has none."""
    method = quantization_of(model.config) if model.on_meta else ""
    if not method:
        return ()
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.role == PARAMETER:
            sizes[tensor.type.dtype] += tensor.bytes
    dtype = "".join(f"{name} " for name, _ in sizes.most_common(1))
    return (f"config names the quantization method {method}: figures are those of the unquantized {dtype}model",)
