"""What commands about traces write as JSON."""

from __future__ import annotations

from msgspec import Struct

from assay.document.trace import TraceSet


class StackLine(Struct, frozen=True):
    """One path of nested spans, outermost first."""

    stack: list[str]
    calls: int
    self_ns: int
    total_ns: int
    gpu_ns: int | None = None


class StacksFile(Struct, frozen=True):
    """All paths of one trace."""

    path: str
    stacks: list[StackLine]


class TracesFile(Struct, frozen=True):
    """Several traces, by model."""

    models: list[TraceSet]
    failures: dict[str, str]
    """Files that could not be read, and why."""
