"""Short texts for shapes and devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay import units
from assay.document.rows import TensorType


def dims(shape: Sequence[int]) -> str:
    """A shape as text: `dims((64, 3, 7, 7)) == "64×3×7×7"`."""
    return units.shape(shape).replace("x", "×")


def devices(names: Iterable[str]) -> str:
    """Several devices as short text: `devices(["cuda:0", "cuda:1"]) == "cuda:0,1"`."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kind, _, number = name.partition(":")
        kinds.setdefault(kind, []).append(number)
    return " ".join(f"{kind}:{','.join(filter(None, numbers))}".rstrip(":") for kind, numbers in kinds.items())


def of_first(calls: Sequence[Sequence[TensorType]], empty: str = "none") -> str | None:
    """The shapes of the first call (`empty` if it has none), followed by an ellipsis if other calls differ."""
    if not calls:
        return None
    text = ", ".join(dims(type.shape) for type in calls[0]) or empty
    return text if all(types == calls[0] for types in calls) else f"{text} …"
