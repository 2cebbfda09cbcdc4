"""Short text for many module paths or tensor names: `layers.0–31.attn` for thirty-two of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod

from assay.document import tree
from assay.document.document import Document

NAMED = 3
"""Names listed on one line."""

FEW = 3
"""Up to this many names are written out if their numbers are not consecutive."""

_NUMBER = re.compile(r"(?<![0-9])(?:0|[1-9][0-9]{0,17})(?![0-9])")
"""Numbers written like an index; others (`007`) are part of the name."""


def module_names(document: Document, modules: Iterable[int], limit: int = NAMED) -> str:
    """The paths of the modules on one line, with consecutive numbers folded."""
    return joined_names(fold_names([tree.path_text(document.modules[index].path) for index in modules]), limit)


def joined_names(names: Sequence[str], limit: int = NAMED) -> str:
    """The first `limit` names and the number of the rest: `a, b, c and 4 more`."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def fold_names(names: Iterable[str]) -> list[str]:
    """Merge names that differ only in their numbers: `folded(["a.0.b", "a.1.b"]) == ["a.0–1.b"]`."""
    groups: dict[tuple[str, ...], list[tuple[int, ...]]] = {}
    for name in dict.fromkeys(names):
        numbers = tuple(int(number) for number in _NUMBER.findall(name))
        groups.setdefault(tuple(_NUMBER.split(name)), []).append(numbers)
    return [_folded_name(pieces, numbers) for pieces, numbers in groups.items()]


def _folded_name(pieces: tuple[str, ...], numbers: list[tuple[int, ...]]) -> str:
    """One name for several: ranges of numbers between `pieces`, or their count if the numbers leave gaps."""
    columns = [sorted(set(column)) for column in zip(*numbers, strict=True)]
    if prod(map(len, columns)) == len(numbers) and all(
        column[-1] - column[0] + 1 == len(column) for column in columns
    ):
        return _joined(pieces, [_range_text(column) for column in columns])
    if len(numbers) <= FEW:
        return ", ".join(_joined(pieces, [str(number) for number in each]) for each in numbers)
    varying = [str(column[0]) if len(column) == 1 else "#" for column in columns]
    return f"{_joined(pieces, varying)} ×{len(numbers)}"


def _range_text(column: list[int]) -> str:
    return str(column[0]) if len(column) == 1 else f"{column[0]}–{column[-1]}"


def _joined(pieces: tuple[str, ...], between: list[str]) -> str:
    return "".join(piece + number for piece, number in zip(pieces, [*between, ""], strict=True))
