"""The arithmetic of one operation, as a formula returns it."""

from __future__ import annotations

from msgspec import Struct

FLOPS_PER_MAC = 2
REAL_MACS_PER_COMPLEX_MAC = 4


class Uncountable(Exception):
    """A formula cannot tell: the text says what is missing."""


class Work(Struct, frozen=True):
    """Arithmetic of one execution; `Work()` is known to be none."""

    macs: int = 0
    pointwise: int = 0
    matrix_flops: int | None = None
    """Where it is not twice the MACs."""
    needed: int | None = None
    """Matrix FLOPs that are needed, where fewer than all."""

    @property
    def flops(self) -> int:
        """The matrix FLOPs."""
        return FLOPS_PER_MAC * self.macs if self.matrix_flops is None else self.matrix_flops

    def __add__(self, other: Work) -> Work:
        """Both, one after the other."""
        return Work(
            macs=self.macs + other.macs,
            pointwise=self.pointwise + other.pointwise,
            matrix_flops=self.flops + other.flops,
            needed=_needed(self) + _needed(other),
        )


def _needed(work: Work) -> int:
    return work.flops if work.needed is None else work.needed


def contraction(macs: int, dtype: str, *, pointwise: int = 0) -> Work:
    """Matrix work of `macs` multiply-accumulates; a complex one is four real ones."""
    scale = REAL_MACS_PER_COMPLEX_MAC if dtype.startswith("complex") else 1
    return Work(macs=macs * scale, pointwise=pointwise)
