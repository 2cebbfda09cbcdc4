"""Exact order statistics of types with too many patterns to count: prefixes narrowed by 16 bits a pass.

Three kinds of question: which value has a rank, how many values lie below an edge, which magnitude has a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics.dtypes import DType
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.keys import to_key, to_raw
from assay.checkpoint.statistics.partials import Counts, Doubles, Refined, grouped
from assay.checkpoint.statistics.passes import Request

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]

_HALF = np.uint64(0xFFFF)


class ValueSearch(Struct, frozen=True):
    """All questions about one tensor, answered to `bits`."""

    dtype: DType
    bits: int
    ranks: Keys
    """The keys, so far, of the values that have the wanted ranks."""
    rests: Integers
    """Their ranks among the values behind those prefixes."""
    goals: Keys
    """The keys of edges, rising."""
    below: Integers
    """How many values lie below each edge, as far as is known."""
    magnitudes: Keys
    """The patterns, so far, of the magnitudes that have the wanted ranks."""
    magnitude_rests: Integers
    kept: Doubles
    """The energy from each such rank on, behind the last prefix; known when all bits are."""

    @property
    def done(self) -> bool:
        """Whether every bit is known."""
        return self.bits == 8 * self.dtype.bytes


def begin(
    dtype: DType,
    patterns: NDArray[np.uint16],
    counts: Counts,
    ranks: Sequence[int],
    goals: Keys,
    places: Sequence[int],
) -> ValueSearch:
    """The questions narrowed to the top 16 bits by the first pass's counts of them; edges as rising keys."""
    kept = ~nonfinite_tops(patterns, dtype) if dtype.real else np.ones(patterns.size, dtype=bool)
    tops, times = patterns[kept].astype(np.int64), counts[kept].astype(np.int64)
    keys, ordered = grouped(to_key(tops, 16, dtype), times)
    cumulated = _cumulated(ordered)
    at, rests = _located(cumulated, ranks)
    halves, often = grouped(tops & 0x7FFF, times)
    spot, magnitude_rests = _located(_cumulated(often), places)
    return ValueSearch(
        dtype,
        16,
        keys[at].astype(np.uint64),
        rests,
        goals,
        cumulated[np.searchsorted(keys, (goals >> np.uint64(8 * dtype.bytes - 16)).astype(np.int64))],
        halves[spot].astype(np.uint64),
        magnitude_rests,
        np.zeros(len(places)),
    )


def nonfinite_tops(patterns: NDArray[np.uint16], dtype: DType) -> NDArray[np.bool_]:
    """Which top halfwords belong to NaN and infinities."""
    exponent = np.uint16(0x7F80 if dtype.bytes == 4 else 0x7FF0)
    return np.asarray((patterns & exponent) == exponent)


def request(search: ValueSearch, peak: float = 0.0) -> Request:
    """What the next pass must look for."""
    shift = 8 * search.dtype.bytes - search.bits - 16
    prefixes = _prefixes(search)
    slots = np.zeros(65536, dtype=np.uint8)
    tops = (prefixes[:, 0] >> np.uint64(search.bits - 16)).astype(np.int64)
    slots[tops[::-1]] = np.arange(tops.size, 0, -1)
    return Request(shift, slots, prefixes, _edges(search), shift == 0, peak, _magnitudes_above(search))


def advance(search: ValueSearch, refined: Refined) -> ValueSearch:
    """The questions narrowed by 16 more bits."""
    finds = _Finds(*refined.finds(), _prefixes(search))
    ranks, rests = _next_ranks(search, finds)
    lists = (finds.list(search.magnitudes | sign) for sign in (np.uint64(0), _sign(search)))
    wanted = np.stack((search.magnitudes, *lists, search.magnitude_rests.astype(np.uint64)), axis=1)
    magnitudes, kept = kernel.magnitudes(finds.keys, finds.counts, search.dtype.bytes, wanted)
    return ValueSearch(
        search.dtype,
        search.bits + 16,
        ranks,
        rests,
        search.goals,
        search.below + refined.inside.astype(np.int64),
        magnitudes[:, 0],
        magnitudes[:, 1].astype(np.int64),
        kept[0],
    )


def values_of(search: ValueSearch) -> list[float | int]:
    """The values of the answered ranks."""
    raws = to_raw(search.ranks, search.bits, search.dtype).astype(f"<u{search.dtype.bytes}")
    values: list[float | int] = raws.view(search.dtype.numpy).tolist()
    return [value + 0.0 for value in values] if search.dtype.real else values


class _Finds:
    """A refining pass's finds: sorted keys of list and halfword, and how often each occurs where that is known."""

    def __init__(self, keys: NDArray[np.uint32], counts: Counts, prefixes: Counts) -> None:
        self.keys, self.counts = keys, counts
        self._bits, self._lists = prefixes[:, 0], prefixes[:, 1]
        self._cumulated = _cumulated(counts.astype(np.int64)) if counts.size else None

    def list(self, raws: Keys) -> Keys:
        """The lists of some prefixes."""
        return self._lists[np.searchsorted(self._bits, raws)]

    def before(self, keys: Integers) -> Integers:
        """How many finds have lesser keys."""
        places = np.searchsorted(self.keys, keys.astype(np.uint32))
        return places if self._cumulated is None else self._cumulated[places]

    def at(self, ranks: Integers) -> Integers:
        """The keys of the finds with these ranks."""
        places = ranks if self._cumulated is None else np.searchsorted(self._cumulated, ranks, side="right") - 1
        return self.keys[places].astype(np.int64)


def _cumulated(counts: Integers) -> Integers:
    return np.concatenate(([0], np.cumsum(counts)))


def _located(cumulated: Integers, ranks: Sequence[int]) -> tuple[Integers, Integers]:
    """Where among counts each rank falls, and its rank there."""
    wanted = np.array(ranks, dtype=np.int64)
    places = np.searchsorted(cumulated, wanted, side="right") - 1
    return places, wanted - cumulated[places]


def _sign(search: ValueSearch) -> Any:
    return np.uint64(1 << (search.bits - 1))


def _prefixes(search: ValueSearch) -> Counts:
    """The prefixes that are asked for, sorted, each with its list, its first edge and how many edges it has."""
    dtype, bits = search.dtype, search.bits
    goals = search.goals >> np.uint64(8 * dtype.bytes - bits)
    magnitudes = search.magnitudes
    listed = _distinct(np.concatenate((to_raw(search.ranks, bits, dtype), magnitudes, magnitudes | _sign(search))))
    every = _distinct(np.concatenate((listed, to_raw(goals, bits, dtype))))
    found = np.zeros((every.size, 4), dtype=np.uint64)
    found[:, 0] = every
    found[np.searchsorted(every, listed), 1] = np.arange(1, listed.size + 1)
    keys = to_key(every, bits, dtype)
    found[:, 2] = np.searchsorted(goals, keys)
    found[:, 3] = np.searchsorted(goals, keys, side="right") - found[:, 2].astype(np.int64)
    return found


def _distinct(values: Keys) -> Keys:
    # numpy's own loads its masked arrays first, which takes longer than a small file does.
    values = np.sort(values)
    return values[np.concatenate(([True], values[1:] != values[:-1]))]


def _edges(search: ValueSearch) -> Counts:
    """For every edge the least halfword behind its prefix that lies below it, and how many from it do."""
    left = 8 * search.dtype.bytes - search.bits
    spans = search.goals >> np.uint64(left - 16) & _HALF
    falling = _falling(to_raw(search.goals >> np.uint64(left), search.bits, search.dtype), search)
    return np.stack((np.where(falling, np.uint64(0x10000) - spans, np.uint64(0)), spans), axis=1)


def _falling(raws: Keys, search: ValueSearch) -> NDArray[np.bool_]:
    """Which prefixes hold their values in falling order."""
    return np.asarray(raws >> np.uint64(search.bits - 1) != 0) & search.dtype.real


def _next_ranks(search: ValueSearch, finds: _Finds) -> tuple[Keys, Integers]:
    raws = to_raw(search.ranks, search.bits, search.dtype)
    falling, first = _falling(raws, search), finds.list(raws).astype(np.int64) << 16
    ranks = np.where(falling, finds.before(first + 0x10000) - 1 - search.rests, finds.before(first) + search.rests)
    keys = finds.at(ranks)
    rests = np.where(falling, finds.before(keys + 1) - 1 - ranks, ranks - finds.before(keys))
    halves = np.where(falling, 0xFFFF - (keys & 0xFFFF), keys & 0xFFFF)
    return search.ranks << np.uint64(16) | halves.astype(np.uint64), rests


def _magnitudes_above(search: ValueSearch) -> Doubles:
    """The least magnitude above each of the prefixes that hold the wanted ones."""
    left = np.uint64(8 * search.dtype.bytes - search.bits)
    raws: NDArray[Any] = ((search.magnitudes + np.uint64(1)) << left).astype(f"<u{search.dtype.bytes}")
    return raws.view(f"<f{search.dtype.bytes}").astype(np.float64)
