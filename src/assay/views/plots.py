"""Plots drawn with text characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLAIN = " .:#"
"""ASCII replacement for `_BLOCKS`."""


def columns(values: Sequence[float], width: int) -> list[float]:
    """`values` downsampled to at most `width`: the maximum of each interval, so that peaks are kept."""
    if len(values) <= width:
        return list(values)
    edges = [len(values) * index // width for index in range(width + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]


def area(values: Sequence[float], *, width: int = 64, height: int = 6, utf8: bool = True) -> list[str]:
    """Text lines that draw the values as a filled area, top line first; the largest value has full height."""
    marks = _BLOCKS if utf8 else _PLAIN
    heights = columns(values, width)
    top = max(heights, default=0)
    full = len(marks) - 1
    filled = [ceil(value / top * height * full) if top else 0 for value in heights]
    return [
        "".join(marks[min(max(level - full * row, 0), full)] for level in filled) for row in range(height - 1, -1, -1)
    ]


_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int, *, utf8: bool = True) -> str:
    """A horizontal bar that fills `share` of `width` cells, to an eighth of a cell: `bar(0.5, 4) == "██"`."""
    if not utf8:
        return "#" * round(share * width)
    full, eighths = divmod(ceil(share * width * 8), 8)
    return "█" * full + _EIGHTHS[eighths].strip()
