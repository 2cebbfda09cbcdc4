"""Exact order statistics of types with too many patterns to count: prefixes narrowed by 16 bits a pass.

Three kinds of question: which value has a rank, how many values lie below an edge, which magnitude has a rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from assay.weights.dtypes import DType
from assay.weights.keys import key_at_least, number, to_raw
from assay.weights.partials import Counts, Refined
from assay.weights.passes import Request

Halves = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Halfwords in rising order, and how often each occurs."""


class Rank(Struct, frozen=True):
    """The value of a rank: its key so far, and its rank among the values behind that prefix."""

    key: int
    rest: int


class Edge(Struct, frozen=True):
    """How many values lie below a key."""

    goal: int
    below: int


class Magnitude(Struct, frozen=True):
    """The magnitude of a rank, and what lies above it behind the last prefix."""

    key: int
    rest: int
    tail: Halves | None = None
    equal_kept: int = 0
    """Values of just this magnitude from the rank on."""


class Search(Struct, frozen=True):
    """All questions about one tensor, answered to `bits`."""

    dtype: DType
    bits: int
    ranks: tuple[Rank, ...]
    edges: tuple[Edge, ...]
    magnitudes: tuple[Magnitude, ...]

    @property
    def done(self) -> bool:
        """Whether every bit is known."""
        return self.bits == 8 * self.dtype.bytes


def begin(
    dtype: DType, counts: Counts, ranks: Sequence[int], edges: Sequence[float], places: Sequence[int]
) -> Search:
    """The questions narrowed to the top 16 bits by the first pass's counts."""
    ordered, folded = ordered_counts(dtype, counts)
    whole = np.cumsum(ordered)
    halves = np.cumsum(folded)
    top = 8 * dtype.bytes - 16
    goals = [key_at_least(edge, dtype) for edge in edges]
    return Search(
        dtype,
        16,
        tuple(Rank(*_located(whole, rank)) for rank in ranks),
        tuple(Edge(goal, int(ordered[: goal >> top].sum())) for goal in goals),
        tuple(Magnitude(*_located(halves, place)) for place in places),
    )


def ordered_counts(dtype: DType, counts: Counts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counts of finite values by key of the top 16 bits, and by their magnitude."""
    kept = counts.astype(np.int64)
    if dtype.real:
        kept[nonfinite_tops(dtype)] = 0
    ordered = kept[to_raw(np.arange(65536), 16, dtype)]
    return ordered, kept[:32768] + kept[32768:]


def nonfinite_tops(dtype: DType) -> NDArray[np.bool_]:
    """Which top halfwords belong to NaN and infinities."""
    exponent = 0x7F80 if dtype.bytes == 4 else 0x7FF0
    return np.asarray((np.arange(65536) & exponent) == exponent)


def request(search: Search, peak: float = 0.0, near: float = 0.0) -> Request:
    """What the next pass must look for."""
    shift = 8 * search.dtype.bytes - search.bits - 16
    prefixes = _prefixes(search)
    slots = np.zeros(65536, dtype=np.uint8)
    for place, prefix in reversed(list(enumerate(prefixes))):
        slots[prefix >> (search.bits - 16)] = place + 1
    above = tuple(_upper_edge(item.key, search) for item in search.magnitudes)
    return Request(shift, prefixes, slots.tobytes(), shift == 0, peak, near, above)


def advance(search: Search, refined: Refined) -> Search:
    """The questions narrowed by 16 more bits."""
    finds = _Finds.of(refined, _prefixes(search))
    return Search(
        search.dtype,
        search.bits + 16,
        tuple(_next_rank(item, search, finds) for item in search.ranks),
        tuple(_next_edge(item, search, finds) for item in search.edges),
        tuple(_next_magnitude(item, search, finds) for item in search.magnitudes),
    )


def value_of(rank: Rank, search: Search) -> float | int:
    """The value of an answered rank."""
    return number(to_raw(rank.key, search.bits, search.dtype), search.dtype)


class _Finds(Struct, frozen=True):
    """A refining pass's finds by prefix."""

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    slots: dict[int, int]

    @classmethod
    def of(cls, refined: Refined, prefixes: tuple[int, ...]) -> _Finds:
        keys, counts = refined.finds()
        return cls(keys, counts, {prefix: place + 1 for place, prefix in enumerate(prefixes)})

    def behind(self, prefix: int, reverse: bool = False) -> Halves:
        slot = self.slots[prefix]
        low, high = np.searchsorted(self.keys, (slot << 16, (slot + 1) << 16))
        halves, counts = self.keys[low:high] & 0xFFFF, self.counts[low:high]
        return (0xFFFF - halves[::-1], counts[::-1]) if reverse else (halves, counts)


def _prefixes(search: Search) -> tuple[int, ...]:
    dtype, bits = search.dtype, search.bits
    sign = 1 << (bits - 1)
    raws = {int(to_raw(item.key, bits, dtype)) for item in search.ranks}
    raws |= {int(to_raw(item.goal >> (8 * dtype.bytes - bits), bits, dtype)) for item in search.edges}
    raws |= {item.key | side for item in search.magnitudes for side in (0, sign)}
    return tuple(sorted(raws))


def _located(cumulated: NDArray[np.int64], rank: int) -> tuple[int, int]:
    """Where in cumulated counts a rank falls, and its rank there."""
    place = int(np.searchsorted(cumulated, rank, side="right"))
    return place, rank - (int(cumulated[place - 1]) if place else 0)


def _ordered(key: int, search: Search, finds: _Finds) -> Halves:
    raw = int(to_raw(key, search.bits, search.dtype))
    negative = search.dtype.real and bool(raw >> (search.bits - 1))
    return finds.behind(raw, reverse=negative)


def _next_rank(item: Rank, search: Search, finds: _Finds) -> Rank:
    halves, counts = _ordered(item.key, search, finds)
    place, rest = _located(np.cumsum(counts), item.rest)
    return Rank(item.key << 16 | int(halves[place]), rest)


def _next_edge(item: Edge, search: Search, finds: _Finds) -> Edge:
    left = 8 * search.dtype.bytes - search.bits
    halves, counts = _ordered(item.goal >> left, search, finds)
    goal = item.goal >> (left - 16) & 0xFFFF
    return replace(item, below=item.below + int(counts[halves < goal].sum()))


def _next_magnitude(item: Magnitude, search: Search, finds: _Finds) -> Magnitude:
    sign = 1 << (search.bits - 1)
    positive, negative = finds.behind(item.key), finds.behind(item.key | sign)
    both = np.zeros(65536, dtype=np.int64)
    for found, times in (positive, negative):
        both[found] += times
    halves = np.flatnonzero(both)
    counts = both[halves]
    place, rest = _located(np.cumsum(counts), item.rest)
    key = item.key << 16 | int(halves[place])
    tail = (item.key << 16 | halves[place + 1 :], counts[place + 1 :])
    return Magnitude(key, rest, tail, int(counts[place]) - rest)


def _upper_edge(key: int, search: Search) -> float:
    raw = (key + 1) << (8 * search.dtype.bytes - search.bits)
    return float(np.array([raw], dtype=f"<u{search.dtype.bytes}").view(search.dtype.numpy)[0])
