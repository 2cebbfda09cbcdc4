"""Names that differ only in their numbers, folded into one name with ranges: `layers.0–31.attn`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from statistics import median
from typing import TypeVar

from msgspec import Struct

Row = TypeVar("Row")

_Numbered = tuple[tuple[int, ...], int]
"""The numbers of a name, and its place."""
_Box = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""The numbers that names have in common, and the ranges of the numbers behind them."""
_Others = tuple[str, str, Hashable]
"""What names have in common that differ in one number: the text before and after it, and their key."""
_INDEX = r"(0|[1-9][0-9]{0,17})"
"""Numbers written like an index; others (`007`) are part of the name."""
_ANY = re.compile(rf"(?<![0-9]){_INDEX}(?![0-9])")
_WHOLE = re.compile(rf"(?<!\w){_INDEX}(?!\w)")
_LAST = re.compile(rf"(?<![0-9]){_INDEX}(?!\w)")
"""Numbers at the end of a word, as in `blocks_3` and `layer3`, and those that stand alone."""
_COMPONENT = re.compile(r"[^.]*\.?\Z")
"""The last part of a dotted name before a number."""
CUT = "…"
"""Stands for ranges that are not listed."""
_LISTED = 4
"""Ranges with gaps between them are all listed if there are at most this many."""
_ODD_FACTOR = 1.5
"""A member is the odd one out if it exceeds every other one by this factor."""
_EXACT_BELOW = 10
"""Smaller ratios are written with one decimal."""
_MAX_NUMBERS = 16
"""Numbers of a name that are folded; further ones are part of the text."""
_MIN_RUN = 3
"""In a smaller run, no member is the odd one out, and numbers of words (`conv1`, `conv2`) may be different roles."""


class FoldedName(Struct, frozen=True):
    """One name for several that differ only in their numbers; every combination of its numbers occurs."""

    text: str
    """The name, with ranges where numbers differ: `layers.0–6,8–31.attn`."""
    members: tuple[int, ...]
    """The folded names by their place, in numerical order."""
    labels: tuple[str, ...]
    """The part of each member's name that distinguishes it: `layers.7`, or `h.3.e.5` if two numbers differ."""

    @property
    def counted(self) -> str:
        """The name and, if there are several, the number of members: `layers.0–31.attn ×32`."""
        return f"{self.text} ×{len(self.members)}" if len(self.members) > 1 else self.text


def fold_names(
    names: Iterable[str], keys: Sequence[Hashable] | None = None, *, whole: bool = False, indices: bool = False
) -> list[FoldedName]:
    """The folded names, in order of their first members.

    Args:
        names: The names to fold.
        keys: A key for each name; names with different keys are not folded into one.
        whole: Fold only numbers that stand alone, as in `layers.3`, and not those in `conv3`.
        indices: Fold only those and numbers of words that count equal parts, as in `blocks_3`.
    """
    names = list(names)
    pattern = _WHOLE if whole else _ANY
    split = _split_at_indices(names, keys) if indices else (pattern.split(name, _MAX_NUMBERS) for name in names)
    groups: dict[tuple[tuple[str, ...], Hashable], list[_Numbered]] = {}
    for index, parts in enumerate(split):
        key = tuple(parts[::2]), keys[index] if keys is not None else None
        groups.setdefault(key, []).append((tuple(map(int, parts[1::2])), index))
    folded: list[FoldedName] = []
    while groups:  # of as many tensors as a file may have, both together would take a lot of memory
        (pieces, _), rows = groups.popitem()
        folded += _boxes(pieces, rows)
    return sorted(folded, key=lambda one: min(one.members))


def family_names(names: Sequence[str], keys: Sequence[Hashable] | None = None) -> list[str]:
    """The names with # for the numbers that `fold_names` folds with `indices`: `layers.#.mlp.up_proj.weight`."""
    return ["#".join(parts[::2]) for parts in _split_at_indices(names, keys)]


def _split_at_indices(names: Sequence[str], keys: Sequence[Hashable] | None) -> Iterator[list[str]]:
    """The parts of each name, every second of which is a number that stands alone or counts equal parts."""
    counted = _counting(
        _others(match, keys[at] if keys else None)
        for at, name in enumerate(names)
        for match in _numbers(name)
        if not _stands_alone(match)
    )
    for name in names:
        yield _split(
            name, [match for match in _numbers(name) if _stands_alone(match) or name[: match.start()] in counted]
        )


def _numbers(name: str) -> Iterator[re.Match[str]]:
    return islice(_LAST.finditer(name), _MAX_NUMBERS)


def _counting(glued: Iterable[tuple[int, _Others]]) -> set[str]:
    """The texts before numbers of words that count equal parts: most names behind them are in a run.

    The names of a run differ only in this number, of which there are at least three consecutive ones; two if the part
    has parts of its own (`layer0.conv1.weight`). So `conv1` and `conv2` of one block are different parts.
    """
    numbers: dict[_Others, set[int]] = {}
    for number, others in glued:
        numbers.setdefault(others, set()).add(number)
    votes: Counter[str] = Counter()
    for (before, after, _), each in numbers.items():
        in_runs = _in_runs(each, 2 if "." in after.strip(".") else _MIN_RUN)
        votes[before] += 2 * in_runs - len(each)
    return {before for before, vote in votes.items() if vote > 0}


def _others(match: re.Match[str], key: Hashable) -> tuple[int, _Others]:
    """The number, and what its name has in common with those that differ only in it."""
    return int(match[0]), (match.string[: match.start()], match.string[match.end() :], key)


def _stands_alone(match: re.Match[str]) -> bool:
    before = match.string[: match.start()][-1:]
    return not (before.isalnum() or before == "_")


def _in_runs(numbers: set[int], least: int) -> int:
    """How many of the numbers are in a run of at least so many consecutive ones."""
    count = 0
    for first in (number for number in numbers if number - 1 not in numbers):
        end = first
        while end in numbers:
            end += 1
        count += end - first if end - first >= least else 0
    return count


def _split(name: str, matches: Sequence[re.Match[str]]) -> list[str]:
    """The text before, between and after the numbers, and the numbers themselves at odd places."""
    edges = [0, *(edge for match in matches for edge in match.span()), len(name)]
    return [name[start:end] for start, end in pairwise(edges)]


def fold_rows(
    rows: Sequence[Row],
    name: Callable[[Row], str],
    key: Callable[[Row], Hashable],
    merged: Callable[[FoldedName, Sequence[Row]], Row],
) -> list[Row]:
    """The rows with those of equal keys merged if their dotted names differ only in numbers that stand alone."""
    folded = fold_names(map(name, rows), [key(row) for row in rows], whole=True)
    return [
        merged(one, [rows[at] for at in one.members]) if len(one.members) > 1 else rows[one.members[0]]
        for one in folded
    ]


def ranges_text(numbers: Iterable[int], separator: str = ",") -> str:
    """Ascending numbers as ranges: `0–6,8–11`, or `0,2,…,18` if there are many gaps."""
    ends: list[tuple[int, int]] = []
    for number in numbers:
        if ends and number == ends[-1][1] + 1:
            ends[-1] = ends[-1][0], number
        else:
            ends.append((number, number))
    texts = [str(first) if first == last else f"{first}–{last}" for first, last in ends]
    return separator.join(texts if len(texts) <= _LISTED else [*texts[:2], CUT, texts[-1]])


def odd_text(folded: str, member: str, ratio: float) -> str:
    """`layers.7: 2.1× the others`, for `layers.7.mlp` and the folded name `layers.0–11.mlp`."""
    parts = member.split(".")
    varying = [at for at, (one, other) in enumerate(zip(folded.split("."), parts, strict=True)) if one != other]
    label = ".".join(parts[max(varying[0] - 1, 0) : varying[-1] + 1])
    return f"{label}: {f'{ratio:.1f}' if ratio < _EXACT_BELOW else f'{ratio:,.0f}'}× the others"


def odd_one(values: Sequence[float | None]) -> tuple[int, float] | None:
    """The place of the one value that is far above all others, and its ratio to their median; None without one."""
    known = [value for value in values if value is not None]
    if len(known) < max(len(values), _MIN_RUN):
        return None
    at = max(range(len(known)), key=known.__getitem__)
    others = known[:at] + known[at + 1 :]
    typical = median(others)
    return (at, known[at] / typical) if typical > 0 and known[at] > _ODD_FACTOR * max(others) else None


def _boxes(pieces: Sequence[str], rows: list[_Numbered]) -> list[FoldedName]:
    """The names with the numbers of `rows` between `pieces`, as names whose ranges cover exactly these.

    From the last number to the first, names with the same numbers before and the same ranges behind are merged.
    """
    if len(rows) == 1:
        ((numbers, index),) = rows
        return [FoldedName(_joined(pieces, map(str, numbers)), (index,), ("",))]
    boxes: dict[_Box, list[_Numbered]] = {}
    for numbers, index in rows:
        boxes.setdefault((numbers, ()), []).append((numbers, index))
    for _ in pieces[1:]:
        wider: dict[_Box, dict[int, list[_Numbered]]] = {}
        for (before, ranges), members in boxes.items():
            wider.setdefault((before[:-1], ranges), {})[before[-1]] = members
        boxes = {
            (before, (tuple(sorted(by_number)), *ranges)): [one for members in by_number.values() for one in members]
            for (before, ranges), by_number in wider.items()
        }
    return [_folded(pieces, ranges, sorted(members)) for (_, ranges), members in boxes.items()]


def _folded(pieces: Sequence[str], ranges: Sequence[Sequence[int]], members: list[_Numbered]) -> FoldedName:
    varying = [at for at, numbers in enumerate(ranges) if len(numbers) > 1]
    labels = [_label(pieces, numbers, varying) for numbers, _ in members]
    return FoldedName(_joined(pieces, map(ranges_text, ranges)), tuple(index for _, index in members), tuple(labels))


def _label(pieces: Sequence[str], numbers: Sequence[int], varying: Sequence[int]) -> str:
    """The name from the part with the first varying number to the last one; empty if none varies."""
    if not varying:
        return ""
    first, last = varying[0], varying[-1]
    start = _COMPONENT.search(pieces[first])
    assert start is not None
    return _joined([start[0], *pieces[first + 1 : last + 1], ""], map(str, numbers[first : last + 1]))


def _joined(pieces: Sequence[str], numbers: Iterable[str]) -> str:
    return "".join(piece + number for piece, number in zip(pieces, [*numbers, ""], strict=True))
