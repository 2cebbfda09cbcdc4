"""Plans as rows: what a finding proposes for each tensor, with its bytes before and after."""

from __future__ import annotations

from msgspec import Struct


class QuantizedTensor(Struct, frozen=True, tag="quantized"):
    """The format that a plan chooses for one matrix."""

    name: str
    """The tensor's first name."""
    format: str
    """`int4` or `int8`, or the tensor's own dtype if it has to stay."""
    scope: str
    """The values that share a scale: `channel` (one row) or `group128`; empty if it has to stay."""
    sqnr_db: float | None
    """The signal-to-noise ratio it keeps; null if nothing is lost."""
    bytes: int
    """Its bytes now."""
    planned_bytes: int
    """Its bytes in that format, with scales."""

    @property
    def width(self) -> str:
        """`int4`, `int8` or `unchanged`."""
        return self.format if self.scope else "unchanged"


class PrunedTensor(Struct, frozen=True, tag="pruned"):
    """What a plan prunes from one matrix."""

    name: str
    """The tensor's first name."""
    elements: int
    """Its weights."""
    share: float
    """The largest step of its pruning curve that keeps enough energy: at least this share can be zero."""
    share_zero: float
    """The share that is zero already."""
    energy: float
    """The share of its sum of squares that is kept."""
    bytes: int
    """Its bytes now: as stored or, if that is less, as a bit mask and the weights that are not zero."""
    planned_bytes: int
    """Its bytes as a bit mask and the remaining weights."""


TensorPlan = QuantizedTensor | PrunedTensor
