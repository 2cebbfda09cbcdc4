"""The JSON of `assay trace --by stack`."""

from __future__ import annotations

from msgspec import Struct

from assay.trace.read.stacks import StackLine, Stacks, stack_lines


class StacksFile(Struct, frozen=True):
    """The call stacks of one trace."""

    path: str
    stacks: list[StackLine]


def stacks_file(stacks: Stacks, path: str, sort: str | None, top: int | None) -> StacksFile:
    """The JSON of the first `top` call stacks (all if None), sorted by `sort`."""
    lines = stack_lines(stacks, sort)
    return StacksFile(path, lines if top is None else lines[:top])
