"""Times of modules and ops, added up from short segments of many passes.

Every pass is cut wherever a module call begins or ends and wherever an op runs. Other processes delay whichever
segment is running, so most passes are disturbed, but each single segment only rarely. The lower quartile of a segment
over passes is therefore close to its undisturbed time. All times are sums of the same segments: they add up exactly,
and no module takes longer than the module that calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Chain = tuple[int, ...]
"""The modules whose calls enclose a segment, outermost first; empty outside any module."""
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

QUANTILE = 0.25
QUARTERS = 4
"""The range of a time is that of its estimates from this many consecutive parts of the run."""
WIDENED = 0.05
"""A range is widened by this share on both sides: disturbances last longer than a run."""
SETTLED_FROM = 24
"""The fewest passes whose halves are compared."""
_WHOLE_AGREES = 0.03
_TOP_AGREES = 0.06
_TOP = 5
_OUTSIDE = -1


class Span(NamedTuple):
    """A time in nanoseconds, and the range of its estimates during the run."""

    ns: float
    low_ns: float | None
    high_ns: float | None


@dataclass(frozen=True)
class SegmentedPasses:
    """Passes with the same sequence of events, cut into segments; times are in nanoseconds."""

    segments: Matrix
    """One row per pass with clocked modules, one column per segment."""
    chains: Sequence[Chain]
    """The modules around each segment."""
    ops: Matrix
    """One row per pass with clocked ops, one column per op."""
    op_segments: NDArray[np.intp]
    """The segment that contains each op."""
    op_chains: Sequence[Chain]
    """The modules around each op: those around its segment, and possibly more inside it."""
    clock_ns: float = 0.0
    """The overhead of the clock per segment."""

    @property
    def pieces(self) -> list[Chain]:
        """The modules around each piece of an estimate: first what is left of each segment, then each op."""
        return [*self.chains, *self.op_chains]

    def estimate(self) -> Vector:
        """The undisturbed time of each piece: of each segment without its ops, then of each op."""
        ops = low_quartile(self.ops)
        segments = np.maximum(low_quartile(self.segments) - self.clock_ns, 0.0)
        inside = np.bincount(self.op_segments, ops, len(segments))
        return np.concatenate([np.maximum(segments - inside, 0.0), ops])

    def parts(self) -> list[SegmentedPasses]:
        """The run in consecutive parts; a single one if there are too few passes to divide."""
        count = min(QUARTERS, len(self.segments), len(self.ops) or QUARTERS)
        divided = zip(np.array_split(self.segments, count), np.array_split(self.ops, count), strict=True)
        return [replace(self, segments=segments, ops=ops) for segments, ops in divided]


class Estimates:
    """The estimates from the whole run and from its parts, to be added up by module or op."""

    def __init__(self, passes: SegmentedPasses) -> None:
        self._pieces = passes.pieces
        self._segments = len(passes.chains)
        parts = passes.parts()
        self._all = passes.estimate()
        self._parts = np.array([part.estimate() for part in parts]) if len(parts) > 1 else None

    def whole(self) -> Span:
        """The whole pass."""
        return self._sum(range(len(self._pieces)))

    def outside(self) -> Span:
        """The pass outside any module."""
        return self._sum(self._own.get(_OUTSIDE, ()))

    def own(self, module: int) -> Span:
        """A module without its submodules."""
        return self._sum(self._own.get(module, ()))

    def total(self, module: int) -> Span:
        """A module with everything that it calls; a call inside another call of the same module counts once."""
        return self._sum(self._inside.get(module, ()))

    def knows(self, module: int) -> bool:
        """Whether any time was attributed to the module or to what it calls."""
        return module in self._inside

    def owns(self, module: int) -> bool:
        """Whether any time was attributed to the module itself."""
        return module in self._own

    def ops(self, numbers: Iterable[int]) -> Span:
        """Ops, by their numbers."""
        return self._sum([self._segments + number for number in numbers])

    @cached_property
    def _own(self) -> dict[int, list[int]]:
        """The pieces that belong to each module itself."""
        own: dict[int, list[int]] = {}
        for piece, chain in enumerate(self._pieces):
            own.setdefault(chain[-1] if chain else _OUTSIDE, []).append(piece)
        return own

    @cached_property
    def _inside(self) -> dict[int, list[int]]:
        """The pieces inside each module."""
        inside: dict[int, list[int]] = {}
        for piece, chain in enumerate(self._pieces):
            for module in set(chain):
                inside.setdefault(module, []).append(piece)
        return inside

    def _sum(self, pieces: Sequence[int]) -> Span:
        chosen = np.asarray(pieces, np.intp)
        ns = float(self._all[chosen].sum())
        if self._parts is None:
            return Span(ns, None, None)
        return Span(ns, *widened([ns, *self._parts[:, chosen].sum(axis=1)]))


def low_quartile(samples: Matrix) -> Vector:
    """The lower quartile of each column; zero columns or zero rows give an empty or zero result."""
    if not samples.size:
        return np.zeros(samples.shape[1:])
    low: Vector = np.quantile(samples, QUANTILE, axis=0)
    return low


def low_quartile_of(samples: Sequence[float]) -> Span:
    """The lower quartile of the samples, and the range of those of consecutive parts."""
    values = np.asarray(samples, float)
    ns = float(np.quantile(values, QUANTILE))
    count = min(QUARTERS, len(values))
    if count < 2:
        return Span(ns, None, None)
    return Span(ns, *widened([ns, *(float(np.quantile(part, QUANTILE)) for part in np.array_split(values, count))]))


def widened(estimates: Sequence[float]) -> tuple[float, float]:
    """The range of the estimates, widened on both sides."""
    return float(min(estimates)) * (1 - WIDENED), float(max(estimates)) * (1 + WIDENED)


def halves_agree(segments: Sequence[Vector], chains: Sequence[Chain]) -> bool:
    """Whether both halves of the passes give the same time of the pass and of its slowest modules."""
    if len(segments) < SETTLED_FROM:
        return False
    values = np.asarray(segments)
    half = len(values) // 2
    owners = np.array([chain[-1] + 1 if chain else 0 for chain in chains], np.intp)
    first, second = (np.bincount(owners, low_quartile(part)) for part in (values[:half], values[half:]))
    slowest = np.argsort(first + second)[-_TOP:]
    return _close(first.sum(), second.sum(), _WHOLE_AGREES) and all(
        _close(first[owner], second[owner], _TOP_AGREES) for owner in slowest
    )


def _close(one: float, other: float, within: float) -> bool:
    return bool(abs(one - other) <= within * max(one, other))
