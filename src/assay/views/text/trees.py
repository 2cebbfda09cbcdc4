"""Tree branches drawn in front of names."""

from __future__ import annotations

from collections.abc import Sequence

TREE_KEEPS = 14
"""How much wider than other columns a column with a tree stays, because the branches take part of its width."""


def branches(depths: Sequence[int]) -> list[str]:
    """The branches in front of each row of a tree in preorder: `["", "├ ", "│ └ ", "└ "]` for depths 0, 1, 2, 1."""
    result = []
    continued: list[bool] = []
    for depth in reversed(depths):
        # Going upwards, a row continues the branch of its own depth; branches of deeper rows end here.
        continued = continued[: depth + 1] + [False] * (depth + 1 - len(continued))
        trunk = "".join("│ " if continued[level] else "  " for level in range(1, depth))
        result.append(trunk + ("├ " if continued[depth] else "└ ") if depth else "")
        continued[depth] = True
    return result[::-1]
