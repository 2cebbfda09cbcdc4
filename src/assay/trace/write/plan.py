"""The settings of a capture, from a decorator, a `with` block or the environment, and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from assay.document.trace_labels import TraceFacts
from assay.errors import UsageError

PROFILER_OPTIONS = frozenset(
    {"activities", "with_stack", "with_flops", "with_modules", "experimental_config", "custom_trace_id_callback"}
)
"""Options that are passed on to torch's profiler."""

DECIDED_HERE = frozenset({"schedule", "on_trace_ready", "execution_trace_observer", "acc_events", "use_cuda"})
"""Options of torch's profiler that a capture sets itself."""


@dataclass(frozen=True)
class CapturePlan:
    """What to capture, how often, and the directory for the traces."""

    directory: Path
    model_name: str | None = None
    """None: the name of the class."""
    record_shapes: bool = True
    profile_memory: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    """More options of torch's profiler: see `PROFILER_OPTIONS`."""
    every: int = 1
    warmup: int = 0
    most: int | None = None
    gzip: bool = False
    manifest: Path | None = None
    """A file to which the name of every written trace is appended, for the process that started this one."""


@dataclass(frozen=True)
class LayerTime:
    """The CPU time of one module in one pass, by Assay's own clock."""

    path: str
    class_name: str
    calls: int
    own_ns: int
    """Self time; the self times of all modules add up to the pass."""
    total_ns: int
    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    """The distinct shapes of its inputs, in order of first appearance."""


@dataclass(frozen=True)
class CapturedPass:
    """The results of one finished pass, and the path of its trace."""

    facts: TraceFacts
    layers: tuple[LayerTime, ...]
    took_ns: int
    path: Path | None
    """None if no trace was written; `problem` is the reason."""
    problem: str | None = None


class CaptureLog(Protocol):
    """Receives the messages of captures; nothing in this package prints."""

    def debug(self, line: str) -> None:
        """Report a decision; shown in verbose output."""

    def warn(self, line: str) -> None:
        """Report a problem of the capture that does not affect the model."""

    def passed(self, captured: CapturedPass) -> None:
        """Report the end of a pass."""

    def table(self, captured: CapturedPass) -> str:
        """The table of a pass's layers as text."""


def check_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for options that torch's profiler does not have or that a capture sets itself."""
    for name in options:
        if name in DECIDED_HERE:
            raise UsageError(
                f"{name!r} cannot be set: a capture sets it itself; "
                "to choose the passes to capture, use --every, --warmup and --max of `assay run`"
            )
        if name not in PROFILER_OPTIONS:
            supported = ", ".join(sorted(PROFILER_OPTIONS))
            raise UsageError(f"unknown profiler option {name!r}: expected one of {supported}")
