"""Exact order statistics of types with too many patterns to count: prefixes narrowed by 16 bits a pass.

Three kinds of question: which value has a rank, how many values lie below an edge, which magnitude has a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.weights.dtypes import DType
from assay.weights.keys import keys_at_least, to_key, to_raw
from assay.weights.partials import Counts, Refined
from assay.weights.passes import Request

Whole = NDArray[np.int64]
Keys = NDArray[np.uint64]
Halves = tuple[Whole, Whole]
"""Halfwords in rising order, and how often each occurs."""

COUNTED_FROM = 4096
"""More halfwords than this are faster counted than sorted."""


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
    ranks: Keys
    """The keys, so far, of the values that have the wanted ranks."""
    rests: Whole
    """Their ranks among the values behind those prefixes."""
    goals: Keys
    """The keys of edges."""
    below: Whole
    """How many values lie below each edge, as far as is known."""
    magnitudes: tuple[Magnitude, ...]

    @property
    def done(self) -> bool:
        """Whether every bit is known."""
        return self.bits == 8 * self.dtype.bytes


def begin(
    dtype: DType,
    patterns: NDArray[np.uint16],
    counts: Counts,
    ranks: Sequence[int],
    edges: Sequence[float],
    places: Sequence[int],
) -> Search:
    """The questions narrowed to the top 16 bits by the first pass's counts of them."""
    kept = ~nonfinite_tops(patterns, dtype) if dtype.real else np.ones(patterns.size, dtype=bool)
    tops, times = patterns[kept].astype(np.int64), counts[kept].astype(np.int64)
    keys, ordered = _grouped(to_key(tops, 16, dtype), times)
    cumulated = np.concatenate(([0], np.cumsum(ordered)))
    wanted = np.array(ranks, dtype=np.int64)
    at = np.searchsorted(cumulated, wanted, side="right") - 1
    goals = keys_at_least(edges, dtype)
    goal_tops = (goals >> np.uint64(8 * dtype.bytes - 16)).astype(np.int64)
    halves = _grouped(tops & 0x7FFF, times) if places else (keys, ordered)
    return Search(
        dtype,
        16,
        keys[at].astype(np.uint64),
        wanted - cumulated[at],
        goals,
        cumulated[np.searchsorted(keys, goal_tops)],
        tuple(Magnitude(int(halves[0][place]), rest) for place, rest in _located(halves[1], places)),
    )


def nonfinite_tops(patterns: NDArray[np.uint16], dtype: DType) -> NDArray[np.bool_]:
    """Which top halfwords belong to NaN and infinities."""
    exponent = np.uint16(0x7F80 if dtype.bytes == 4 else 0x7FF0)
    return np.asarray((patterns & exponent) == exponent)


def request(search: Search, peak: float = 0.0, near: float = 0.0) -> Request:
    """What the next pass must look for."""
    shift = 8 * search.dtype.bytes - search.bits - 16
    prefixes = _prefixes(search)
    slots = np.zeros(65536, dtype=np.uint8)
    tops = (prefixes >> np.uint64(search.bits - 16)).astype(np.int64)
    slots[tops[::-1]] = np.arange(prefixes.size, 0, -1)
    above = _upper_edges(search)
    return Request(shift, tuple(prefixes.tolist()), slots.tobytes(), shift == 0, peak, near, above)


def advance(search: Search, refined: Refined) -> Search:
    """The questions narrowed by 16 more bits."""
    finds = _Finds(*refined.finds(), _prefixes(search))
    ranks, rests = _next_ranks(search, finds)
    return Search(
        search.dtype,
        search.bits + 16,
        ranks,
        rests,
        search.goals,
        search.below + _newly_below(search, finds),
        tuple(_next_magnitude(item, search, finds) for item in search.magnitudes),
    )


def values_of(search: Search) -> list[float | int]:
    """The values of the answered ranks."""
    raws = to_raw(search.ranks, search.bits, search.dtype).astype(f"<u{search.dtype.bytes}")
    values: list[float | int] = raws.view(search.dtype.numpy).tolist()
    return [value + 0.0 for value in values] if search.dtype.real else values


class _Finds(Struct, frozen=True):
    """A refining pass's finds: sorted keys of slot and halfword, and where counted how many come before each."""

    keys: NDArray[np.uint32]
    cumulated: Whole | None
    prefixes: Keys

    def first(self, raws: Keys) -> Whole:
        """The least key behind each of some prefixes."""
        return (np.searchsorted(self.prefixes, raws).astype(np.int64) + 1) << 16

    def before(self, keys: Whole) -> Whole:
        """How many finds have lesser keys."""
        places = np.searchsorted(self.keys, keys.astype(np.uint32))
        return places if self.cumulated is None else self.cumulated[places]

    def at(self, ranks: Whole) -> Whole:
        """The keys of the finds with these ranks."""
        places = ranks if self.cumulated is None else np.searchsorted(self.cumulated, ranks, side="right") - 1
        return self.keys[places].astype(np.int64)

    def behind(self, raws: Keys) -> Halves:
        """The halfwords behind some prefixes taken together."""
        first = self.first(raws)
        lows, highs = np.searchsorted(self.keys, np.concatenate((first, first + 0x10000)).astype(np.uint32)).reshape(
            2, -1
        )
        parts = [slice(low, high) for low, high in zip(lows, highs, strict=True)]
        halves = np.concatenate([self.keys[part] for part in parts]) & np.uint32(0xFFFF)
        if self.cumulated is None and halves.size > COUNTED_FROM:
            counts = np.bincount(halves)
            used = np.flatnonzero(counts)
            return used, counts[used]
        if self.cumulated is None:
            return _grouped(halves, np.ones(halves.size, dtype=np.int64))
        cumulated = self.cumulated
        return _grouped(halves, np.concatenate([np.diff(cumulated[part.start : part.stop + 1]) for part in parts]))


def _grouped(values: NDArray[Any], counts: Whole) -> Halves:
    """Values in rising order, equal ones once, with their counts added up."""
    order = values.argsort(kind="stable")
    values = values[order].astype(np.int64)
    if not values.size:
        return values, counts
    starts = np.concatenate(([0], (values[1:] != values[:-1]).nonzero()[0] + 1))
    return values[starts], np.add.reduceat(counts[order], starts)


def _prefixes(search: Search) -> Keys:
    dtype, bits = search.dtype, search.bits
    magnitudes = np.array([item.key for item in search.magnitudes], dtype=np.uint64)
    ranks, edges = (to_raw(keys, bits, dtype) for keys in (search.ranks, _goal_prefixes(search)))
    sign = np.uint64(1 << (bits - 1))
    prefixes: Keys = np.unique(np.concatenate((ranks, edges, magnitudes, magnitudes | sign)))
    return prefixes


def _goal_prefixes(search: Search) -> Keys:
    prefixes: Keys = search.goals >> np.uint64(8 * search.dtype.bytes - search.bits)
    return prefixes


def _located(counts: Whole, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """Where in counts each rank falls, and its rank there."""
    cumulated = np.concatenate(([0], np.cumsum(counts)))
    places = np.searchsorted(cumulated, np.array(ranks, dtype=np.int64), side="right") - 1
    return [(int(place), rank - int(cumulated[place])) for place, rank in zip(places, ranks, strict=True)]


def _negative(raws: Keys, search: Search) -> NDArray[np.bool_]:
    """Which prefixes hold their values in falling order."""
    return np.asarray(raws >> np.uint64(search.bits - 1) != 0) & search.dtype.real


def _next_ranks(search: Search, finds: _Finds) -> tuple[Keys, Whole]:
    raws = to_raw(search.ranks, search.bits, search.dtype)
    falling, first = _negative(raws, search), finds.first(raws)
    ranks = np.where(falling, finds.before(first + 0x10000) - 1 - search.rests, finds.before(first) + search.rests)
    keys = finds.at(ranks)
    rests = np.where(falling, finds.before(keys + 1) - 1 - ranks, ranks - finds.before(keys))
    halves = np.where(falling, 0xFFFF - (keys & 0xFFFF), keys & 0xFFFF)
    return search.ranks << np.uint64(16) | halves.astype(np.uint64), rests


def _newly_below(search: Search, finds: _Finds) -> Whole:
    raws = to_raw(_goal_prefixes(search), search.bits, search.dtype)
    falling, first = _negative(raws, search), finds.first(raws)
    left = 8 * search.dtype.bytes - search.bits
    goals = (search.goals >> np.uint64(left - 16) & np.uint64(0xFFFF)).astype(np.int64)
    rising = finds.before(first + goals) - finds.before(first)
    return np.where(falling, finds.before(first + 0x10000) - finds.before(first + 0x10000 - goals), rising)


def _next_magnitude(item: Magnitude, search: Search, finds: _Finds) -> Magnitude:
    sign = 1 << (search.bits - 1)
    halves, counts = finds.behind(np.array([item.key, item.key | sign], dtype=np.uint64))
    cumulated = counts.cumsum()
    place = int(cumulated.searchsorted(item.rest, side="right"))
    rest = item.rest - int(cumulated[place] - counts[place])
    key = item.key << 16 | int(halves[place])
    tail = (item.key << 16 | halves[place + 1 :], counts[place + 1 :])
    return Magnitude(key, rest, tail, int(counts[place]) - rest)


def _upper_edges(search: Search) -> tuple[float, ...]:
    """The least magnitude above each of the prefixes that hold the wanted ones."""
    left = 8 * search.dtype.bytes - search.bits
    raws = np.array([(item.key + 1) << left for item in search.magnitudes], dtype=f"<u{search.dtype.bytes}")
    return tuple(raws.view(search.dtype.numpy).astype(np.float64).tolist())
