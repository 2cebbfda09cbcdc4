"""Statistics of a tensor that is stored in several parts, computed exactly from those of the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import hypot, sqrt

from assay.document.document import Document
from assay.document.weights import TensorStatistics


def statistics_by_name(document: Document) -> dict[str, TensorStatistics]:
    """The statistics of each tensor by all its names, also of tensors that are stored in parts."""
    rows = document.weights.tensors if document.weights is not None else []
    by_name = {name: row for row in rows if row.mean is not None for name in row.names}
    fit = document.weights_fit
    sizes = {tensor.names[0]: tensor for tensor in document.tensors} if fit is not None else {}
    for name, stored in fit.stored_as.items() if fit is not None else ():
        parts = [by_name[part] for part in stored if part in by_name]
        if name not in by_name and name in sizes and len(parts) == len(stored) > 1:
            whole = combined(parts, sizes[name].names, sizes[name].type.shape)
            by_name |= dict.fromkeys(whole.names, whole) if whole is not None else {}
    return by_name


def combined(
    parts: Sequence[TensorStatistics], names: tuple[str, ...], shape: tuple[int, ...]
) -> TensorStatistics | None:
    """The statistics of the tensor that these parts make up; None if they do not add up to it or were not read."""
    count, finite = 1, [part.count - (part.nan or 0) - (part.inf or 0) for part in parts]
    for size in shape:
        count *= size
    if sum(part.count for part in parts) != count or any(part.zeros is None for part in parts):
        return None
    whole = sum(finite)
    shares = [size / whole if whole else 0.0 for size in finite]
    mean = sum((part.mean or 0.0) * share for part, share in zip(parts, shares, strict=True))
    deviations = (sqrt(share) * hypot(part.std or 0.0, (part.mean or 0.0) - mean)
                  for part, share in zip(parts, shares, strict=True))  # fmt: skip
    return TensorStatistics(
        names,
        parts[0].dtype,
        shape,
        sum(part.bytes for part in parts),
        count,
        note=f"stored in {len(parts)} parts",
        nan=sum(part.nan or 0 for part in parts),
        inf=sum(part.inf or 0 for part in parts),
        zeros=sum(part.zeros or 0 for part in parts),
        min=_of_known(min, (part.min for part in parts)),
        max=_of_known(max, (part.max for part in parts)),
        mean=mean if whole else None,
        std=hypot(*deviations) if whole else None,
    )


def _of_known(choose: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None
