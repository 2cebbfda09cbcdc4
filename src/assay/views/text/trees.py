"""Drawing a tree in front of its names."""

from __future__ import annotations

from collections.abc import Sequence

TREE_KEEPS = 14
"""A column with a tree needs more room than the others, for its lines take a part of it."""


def branches(depths: Sequence[int]) -> list[str]:
    """The lines of a tree in front of each row, for rows in reading order: `["", "├ ", "│ └ ", "└ "]`."""
    result = []
    continued: list[bool] = []
    for depth in reversed(depths):
        # A row continues the line of its depth upwards; everything deeper begins anew above it.
        continued = continued[: depth + 1] + [False] * (depth + 1 - len(continued))
        trunk = "".join("│ " if continued[level] else "  " for level in range(1, depth))
        result.append(trunk + ("├ " if continued[depth] else "└ ") if depth else "")
        continued[depth] = True
    return result[::-1]
