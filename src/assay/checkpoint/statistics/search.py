"""Exact order statistics of types with too many bit patterns to count: each pass determines 16 more bits.

There are three kinds of query: the value at a rank, the number of values below an edge, the magnitude at a rank.
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
    """The queries about one tensor, answered up to the top `bits` bits."""

    dtype: DType
    bits: int
    rank_keys: Keys
    """Prefixes of the keys of the values with the requested ranks."""
    inner_ranks: Integers
    """The ranks of these values among all values with the same prefix."""
    edge_keys: Keys
    """The keys of the edges, ascending."""
    counts_below: Integers
    """The number of values below each edge, without those that share its prefix."""
    magnitudes: Keys
    """Prefixes of the bit patterns of the magnitudes with the requested ranks."""
    inner_magnitude_ranks: Integers
    """The ranks of these magnitudes among all magnitudes with the same prefix."""
    kept_energies: Doubles
    """The energy from each magnitude rank on, among values with the last prefix; valid once `done`."""

    @property
    def done(self) -> bool:
        """Whether every bit is known."""
        return self.bits == 8 * self.dtype.bytes


def begin(
    dtype: DType,
    patterns: NDArray[np.uint16],
    counts: Counts,
    ranks: Sequence[int],
    edge_keys: Keys,
    magnitude_ranks: Sequence[int],
) -> ValueSearch:
    """The queries answered up to the top 16 bits, from the counts of the first pass."""
    finite = ~nonfinite_tops(patterns, dtype) if dtype.real else np.ones(patterns.size, dtype=bool)
    tops, times = patterns[finite].astype(np.int64), counts[finite].astype(np.int64)
    keys, ordered = grouped(to_key(tops, 16, dtype), times)
    cumulated = _cumulated(ordered)
    at, inner_ranks = _located(cumulated, ranks)
    halves, frequencies = grouped(tops & 0x7FFF, times)
    magnitude_at, inner_magnitude_ranks = _located(_cumulated(frequencies), magnitude_ranks)
    return ValueSearch(
        dtype,
        16,
        keys[at].astype(np.uint64),
        inner_ranks,
        edge_keys,
        cumulated[np.searchsorted(keys, (edge_keys >> np.uint64(8 * dtype.bytes - 16)).astype(np.int64))],
        halves[magnitude_at].astype(np.uint64),
        inner_magnitude_ranks,
        np.zeros(len(magnitude_ranks)),
    )


def nonfinite_tops(patterns: NDArray[np.uint16], dtype: DType) -> NDArray[np.bool_]:
    """Which top halfwords belong to NaN and infinities."""
    exponent = np.uint16(0x7F80 if dtype.bytes == 4 else 0x7FF0)
    return np.asarray((patterns & exponent) == exponent)


def request(search: ValueSearch, peak: float = 0.0) -> Request:
    """The request for the next refining pass."""
    shift = 8 * search.dtype.bytes - search.bits - 16
    prefixes = _prefixes(search)
    slots = np.zeros(65536, dtype=np.uint8)
    tops = (prefixes[:, 0] >> np.uint64(search.bits - 16)).astype(np.int64)
    slots[tops[::-1]] = np.arange(tops.size, 0, -1)
    return Request(shift, slots, prefixes, _edges(search), shift == 0, peak, _magnitudes_above(search))


def advance(search: ValueSearch, refined: Refined) -> ValueSearch:
    """The queries answered to 16 more bits with the results of a refining pass."""
    matches = _Matches(*refined.sorted_matches(), _prefixes(search))
    rank_keys, inner_ranks = _next_ranks(search, matches)
    lists = (matches.list(search.magnitudes | sign) for sign in (np.uint64(0), _sign(search)))
    queries = np.stack((search.magnitudes, *lists, search.inner_magnitude_ranks.astype(np.uint64)), axis=1)
    magnitudes, kept_energies = kernel.magnitudes(matches.keys, matches.counts, search.dtype.bytes, queries)
    return ValueSearch(
        search.dtype,
        search.bits + 16,
        rank_keys,
        inner_ranks,
        search.edge_keys,
        search.counts_below + refined.edge_counts.astype(np.int64),
        magnitudes[:, 0],
        magnitudes[:, 1].astype(np.int64),
        kept_energies[0],
    )


def values_of(search: ValueSearch) -> list[float | int]:
    """The values at the requested ranks, once `done`."""
    raws = to_raw(search.rank_keys, search.bits, search.dtype).astype(f"<u{search.dtype.bytes}")
    values: list[float | int] = raws.view(search.dtype.numpy).tolist()
    return [value + 0.0 for value in values] if search.dtype.real else values


def magnitudes_of(search: ValueSearch) -> list[float]:
    """The magnitudes at the requested ranks, once `done`."""
    raws = search.magnitudes.astype(f"<u{search.dtype.bytes}")
    magnitudes: list[float] = raws.view(f"<f{search.dtype.bytes}").astype(np.float64).tolist()
    return magnitudes


class _Matches:
    """The matches of a refining pass: sorted keys (list number and halfword), and their counts if not all are 1."""

    def __init__(self, keys: NDArray[np.uint32], counts: Counts, prefixes: Counts) -> None:
        self.keys, self.counts = keys, counts
        self._bits, self._lists = prefixes[:, 0], prefixes[:, 1]
        self._cumulated = _cumulated(counts.astype(np.int64)) if counts.size else None

    def list(self, raws: Keys) -> Keys:
        """The list numbers of prefixes."""
        return self._lists[np.searchsorted(self._bits, raws)]

    def before(self, keys: Integers) -> Integers:
        """For each of `keys`, the number of matches with a smaller key."""
        indices = np.searchsorted(self.keys, keys.astype(np.uint32))
        return indices if self._cumulated is None else self._cumulated[indices]

    def at(self, ranks: Integers) -> Integers:
        """The keys of the matches with these ranks."""
        indices = ranks if self._cumulated is None else np.searchsorted(self._cumulated, ranks, side="right") - 1
        return self.keys[indices].astype(np.int64)


def _cumulated(counts: Integers) -> Integers:
    return np.concatenate(([0], np.cumsum(counts)))


def _located(cumulated: Integers, ranks: Sequence[int]) -> tuple[Integers, Integers]:
    """For each rank, the index of the count that includes it, and the rank within that count."""
    targets = np.array(ranks, dtype=np.int64)
    indices = np.searchsorted(cumulated, targets, side="right") - 1
    return indices, targets - cumulated[indices]


def _sign(search: ValueSearch) -> Any:
    return np.uint64(1 << (search.bits - 1))


def _prefixes(search: ValueSearch) -> Counts:
    """The rows of `Request.prefixes`: sorted prefixes with their list number, first edge and number of edges."""
    dtype, bits = search.dtype, search.bits
    edges = search.edge_keys >> np.uint64(8 * dtype.bytes - bits)
    magnitudes = search.magnitudes
    listed = _distinct(
        np.concatenate((to_raw(search.rank_keys, bits, dtype), magnitudes, magnitudes | _sign(search)))
    )
    every = _distinct(np.concatenate((listed, to_raw(edges, bits, dtype))))
    rows = np.zeros((every.size, 4), dtype=np.uint64)
    rows[:, 0] = every
    rows[np.searchsorted(every, listed), 1] = np.arange(1, listed.size + 1)
    keys = to_key(every, bits, dtype)
    rows[:, 2] = np.searchsorted(edges, keys)
    rows[:, 3] = np.searchsorted(edges, keys, side="right") - rows[:, 2].astype(np.int64)
    return rows


def _distinct(values: Keys) -> Keys:
    # np.unique imports numpy.ma on first use, which takes longer than analysing a small file.
    values = np.sort(values)
    return values[np.concatenate(([True], values[1:] != values[:-1]))]


def _edges(search: ValueSearch) -> Counts:
    """The rows of `Request.edges`."""
    remaining = 8 * search.dtype.bytes - search.bits
    spans = search.edge_keys >> np.uint64(remaining - 16) & _HALF
    descending = _descending(to_raw(search.edge_keys >> np.uint64(remaining), search.bits, search.dtype), search)
    return np.stack((np.where(descending, np.uint64(0x10000) - spans, np.uint64(0)), spans), axis=1)


def _descending(raws: Keys, search: ValueSearch) -> NDArray[np.bool_]:
    """For which prefixes values descend as bit patterns ascend: those of negative floats."""
    return np.asarray(raws >> np.uint64(search.bits - 1) != 0) & search.dtype.real


def _next_ranks(search: ValueSearch, matches: _Matches) -> tuple[Keys, Integers]:
    """`rank_keys` and `inner_ranks` with 16 more bits."""
    raws = to_raw(search.rank_keys, search.bits, search.dtype)
    descending, first = _descending(raws, search), matches.list(raws).astype(np.int64) << 16
    last = matches.before(first + 0x10000) - 1
    ranks = np.where(descending, last - search.inner_ranks, matches.before(first) + search.inner_ranks)
    keys = matches.at(ranks)
    inner_ranks = np.where(descending, matches.before(keys + 1) - 1 - ranks, ranks - matches.before(keys))
    halves = np.where(descending, 0xFFFF - (keys & 0xFFFF), keys & 0xFFFF)
    return search.rank_keys << np.uint64(16) | halves.astype(np.uint64), inner_ranks


def _magnitudes_above(search: ValueSearch) -> Doubles:
    """For each requested magnitude, the smallest magnitude above its prefix."""
    remaining = np.uint64(8 * search.dtype.bytes - search.bits)
    raws: NDArray[Any] = ((search.magnitudes + np.uint64(1)) << remaining).astype(f"<u{search.dtype.bytes}")
    return raws.view(f"<f{search.dtype.bytes}").astype(np.float64)
