"""What commands about traces write as JSON."""

from __future__ import annotations

from msgspec import Struct

from assay.document.trace import TraceSet
from assay.trace.read.stacks import StackLine, Stacks, stack_lines


class StacksFile(Struct, frozen=True):
    """All paths of one trace."""

    path: str
    stacks: list[StackLine]


class TracesFile(Struct, frozen=True):
    """Several traces, by model."""

    models: list[TraceSet]
    failures: dict[str, str]
    """Files that could not be read, and why."""


def stacks_file(stacks: Stacks, path: str, sort: str | None, top: int | None) -> StacksFile:
    """All paths as their file holds them."""
    lines = stack_lines(stacks, sort)
    return StacksFile(path, lines if top is None else lines[:top])
