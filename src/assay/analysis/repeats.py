"""Repeated stretches of a sequence: `a b c b c b c d` has `b c` three times in a row.

A sequence is grouped so that what stands at the same place of each turn is together; where turns differ, as in a loop
that skips steps, equal items are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

_LONGEST = 256
"""Longer stretches are not searched for, so that the search stays linear."""


class Repeat(NamedTuple):
    """A stretch of `length` items from `start` on that occurs `times` in a row."""

    start: int
    length: int
    times: int

    @property
    def end(self) -> int:
        """The place behind the last item."""
        return self.start + self.length * self.times


def repeats(items: Sequence[Hashable], anchors: Collection[int], least: int) -> list[Repeat]:
    """The stretches that occur at least `least` times in a row, in order and without overlap.

    Args:
        items: The sequence.
        anchors: The places at which a repeat is looked for; each stretch contains at least one.
        least: The smallest number of times.
    """
    following = _following(items)
    found: list[Repeat] = []
    done = 0
    for place in sorted(anchors):
        length = following[place] - place
        if place < done or not 0 < length <= _LONGEST:
            continue
        after = _matches(items, place, length)
        before = _matches_before(items, place, length, done)
        if before + after >= (least - 1) * length:
            found.append(Repeat(place - before, length, (before + after) // length + 1))
            done = found[-1].end
    return found


def grouped(items: Sequence[Hashable], anchors: Collection[int], least: int) -> list[list[int]]:
    """The places of the sequence, those at the same place of each turn of a repeat together."""
    groups: list[list[int]] = []
    at = 0
    for found in repeats(items, anchors, least):
        groups += [[place] for place in range(at, found.start)]
        groups += [list(range(found.start + turn, found.end, found.length)) for turn in range(found.length)]
        at = found.end
    return groups + [[place] for place in range(at, len(items))]


def grouped_loosely(items: Sequence[Hashable], anchors: Collection[int], least: int) -> list[list[int]]:
    """The places of the sequence; equal ones together between anchors that occur at least `least` times."""
    counts = Counter(items[place] for place in anchors)
    looped = [place for place in sorted(anchors) if counts[items[place]] >= least]
    if not looped:
        return [[place] for place in range(len(items))]
    start, end = looped[0], looped[-1] + 1
    inside = set(items[start:end])
    while start > 0 and items[start - 1] in inside:
        start -= 1
    while end < len(items) and items[end] in inside:
        end += 1
    alike: dict[Hashable, list[int]] = {}
    for place in range(start, end):
        alike.setdefault(items[place], []).append(place)
    return [*([place] for place in range(start)), *alike.values(), *([place] for place in range(end, len(items)))]


def _following(items: Sequence[Hashable]) -> list[int]:
    """For each place, the next one with an equal item; -1 if there is none."""
    latest: dict[Hashable, int] = {}
    result = [-1] * len(items)
    for place in range(len(items) - 1, -1, -1):
        result[place] = latest.get(items[place], -1)
        latest[items[place]] = place
    return result


def _matches(items: Sequence[Hashable], place: int, length: int) -> int:
    """How many items from `place` on are equal to those `length` behind them."""
    count = 0
    while place + count + length < len(items) and items[place + count] == items[place + count + length]:
        count += 1
    return count


def _matches_before(items: Sequence[Hashable], place: int, length: int, done: int) -> int:
    """How many items before `place`, less than a whole stretch, belong to the repeat too."""
    count = 0
    while (
        count < length - 1 and place - count > done and items[place - count - 1] == items[place - count - 1 + length]
    ):
        count += 1
    return count
