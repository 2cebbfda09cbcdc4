"""The arithmetic of one op, as returned by a formula."""

from __future__ import annotations

from msgspec import Struct

FLOPS_PER_MAC = 2
REAL_MACS_PER_COMPLEX_MAC = 4


class Uncountable(Exception):
    """Raised by a formula that cannot count an op; the message names the missing information."""


class Work(Struct, frozen=True):
    """The arithmetic of one execution; `Work()` means no arithmetic."""

    macs: int = 0
    pointwise: int = 0
    matrix_flops: int | None = None
    """Matrix FLOPs, if they are not twice the MACs."""
    needed: int | None = None
    """Matrix FLOPs that the result depends on, if these are fewer than all."""

    @property
    def flops(self) -> int:
        """The matrix FLOPs."""
        return FLOPS_PER_MAC * self.macs if self.matrix_flops is None else self.matrix_flops

    def __add__(self, other: Work) -> Work:
        """The work of both together."""
        return Work(
            macs=self.macs + other.macs,
            pointwise=self.pointwise + other.pointwise,
            matrix_flops=self.flops + other.flops,
            needed=_needed(self) + _needed(other),
        )

    def __mul__(self, times: int) -> Work:
        """The work of `times` executions."""
        return Work(self.macs * times, self.pointwise * times, self.flops * times, _needed(self) * times)


def _needed(work: Work) -> int:
    return work.flops if work.needed is None else work.needed


def contraction(macs: int, dtype: str, *, pointwise: int = 0) -> Work:
    """Work of `macs` multiply-accumulates; a complex MAC counts as four real ones."""
    scale = REAL_MACS_PER_COMPLEX_MAC if dtype.startswith("complex") else 1
    return Work(macs=macs * scale, pointwise=pointwise)
