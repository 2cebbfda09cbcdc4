"""Small plots inside cells and panels: sparklines, areas and bars."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

_BLOCKS = " ▁▂▃▄▅▆▇█"


def columns(values: Sequence[float], width: int) -> list[float]:
    """`values` downsampled to at most `width`: the maximum of each interval, so that peaks are kept."""
    if len(values) <= width:
        return list(values)
    edges = [len(values) * index // width for index in range(width + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as one line of blocks of different heights."""
    return area(values, width=width, height=1)[0]


def area(values: Sequence[float], *, width: int, height: int) -> list[str]:
    """Text lines that draw the values as a filled area, top line first; the largest value has full height."""
    heights = columns(values, width)
    top = max(heights, default=0)
    full = len(_BLOCKS) - 1
    filled = [ceil(value / top * height * full) if top else 0 for value in heights]
    return [
        "".join(_BLOCKS[min(max(level - full * row, 0), full)] for level in filled)
        for row in range(height - 1, -1, -1)
    ]


_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int, *, utf8: bool = True) -> str:
    """A horizontal bar that fills `share` of `width` cells, to an eighth of a cell: `bar(0.5, 4) == "██"`."""
    if not utf8:
        return "#" * round(share * width)
    full, eighths = divmod(ceil(share * width * 8), 8)
    return "█" * full + _EIGHTHS[eighths].strip()
