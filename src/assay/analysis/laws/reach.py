"""Which sizes of a variable to capture, and over which range of it a scaling formula holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from assay.analysis.laws.law import VerifiedRange
from assay.errors import UsageError

CHECK = 7
"""The first check is at this multiple of the step: outside the grid, and odd."""

_DEGREE = {"batch": 1}
_USUAL_DEGREE = 2
_HIGHEST_DEGREE = 3
_FAR = {"batch": 64}
_USUAL_FAR = 16
"""The formula is also compared at this multiple of the step, far from the grid."""

Verdict = Callable[[int], bool | None]
"""Whether the formula holds at a size; None if the model does not run at it."""


class SizePlan(Struct, frozen=True):
    """The sizes of one variable: nodes for the grid, a check outside it, and the largest size to try."""

    nodes: tuple[int, ...]
    check: int
    step: int
    far: int | None = None
    """The largest size to try; None if nothing beyond the check should run."""
    explored: bool = True
    """Whether to try sizes other than the nodes and the check."""

    def raised(self) -> SizePlan:
        """The plan with enough nodes for the highest degree."""
        if not self.explored:
            return self
        first = self.nodes[0]
        return msgspec.structs.replace(
            self, nodes=tuple(range(first, first + self.step * (_HIGHEST_DEGREE + 1), self.step))
        )

    def finer(self, most: int) -> SizePlan:
        """The plan with its step halved until it is at most `most`."""
        step = self.step
        while self.explored and step > most and step % 2 == 0:
            step //= 2
        nodes = tuple(step * (index + 1) for index in range(len(self.nodes)))
        return (
            self if step == self.step else msgspec.structs.replace(self, nodes=nodes, check=CHECK * step, step=step)
        )


def size_plan(name: str, step: int, *, limit: int | None, far: bool) -> SizePlan:
    """The sizes for a variable in multiples of `step`, with the largest one within the limit."""
    # A size of 1 is often a special case.
    start = 2 * step if step == 1 else step
    count = _DEGREE.get(name, _USUAL_DEGREE) + 1
    most = step * _FAR.get(name, _USUAL_FAR)
    most = most if limit is None else min(most, limit - limit % step)
    nodes = tuple(start + step * index for index in range(count))
    return SizePlan(nodes, CHECK * step, step, most if far else None)


def given(name: str, sizes: Sequence[int]) -> SizePlan:
    """The plan for sizes chosen by the user: all but the last are for the grid, the last is the check."""
    chosen = tuple(sizes)
    if len(set(chosen)) != len(chosen) or len(chosen) < 2 or min(chosen) < 1:
        raise UsageError(f"invalid points {chosen} for {name}: expected two or more different positive sizes")
    return SizePlan(chosen[:-1], chosen[-1], 1, explored=False)


def verified_range(verdict: Verdict, along: SizePlan) -> VerifiedRange:
    """The range of one variable over which a formula holds."""
    multiple = _multiple(verdict, along)
    least, ends_below = _first(verdict, _doubled(multiple, along.nodes[0]), along.nodes[0])
    most, ends_above = _first(verdict, _halved(along), along.check)
    return VerifiedRange(least, most, multiple, ends_below, ends_above)


def _multiple(verdict: Verdict, along: SizePlan) -> int:
    """The smallest divisor of the step such that the formula holds for its multiples: 1, or the step reduced."""
    if along.step == 1 or verdict(along.nodes[-1] + 1):
        return 1
    multiple = along.step
    for prime in _primes(along.step):
        while multiple % prime == 0 and verdict(along.nodes[-1] + multiple // prime):
            multiple //= prime
    return multiple


def _primes(number: int) -> Iterator[int]:
    """The prime factors of a number, each once."""
    factor = 2
    while number > 1:
        if number % factor == 0:
            yield factor
        while number % factor == 0:
            number //= factor
        factor += 1


def _first(verdict: Verdict, sizes: Iterator[int], otherwise: int) -> tuple[int, bool]:
    """The first size at which the formula holds, else `otherwise`, and whether it failed at a size before that."""
    refuted = False
    for size in sizes:
        holds = verdict(size)
        if holds:
            return size, refuted
        refuted = refuted or holds is False
    return otherwise, refuted


def _doubled(size: int, end: int) -> Iterator[int]:
    while size < end:
        yield size
        size *= 2


def _halved(along: SizePlan) -> Iterator[int]:
    size = along.far or 0
    while size > along.check:
        yield size
        size = size // 2 // along.step * along.step
