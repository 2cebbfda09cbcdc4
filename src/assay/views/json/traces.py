"""What commands about traces write as JSON."""

from __future__ import annotations

from msgspec import Struct

from assay.trace.read.stacks import StackLine, Stacks, stack_lines


class StacksFile(Struct, frozen=True):
    """All paths of one trace."""

    path: str
    stacks: list[StackLine]


def stacks_file(stacks: Stacks, path: str, sort: str | None, top: int | None) -> StacksFile:
    """All paths as their file holds them."""
    lines = stack_lines(stacks, sort)
    return StacksFile(path, lines if top is None else lines[:top])
