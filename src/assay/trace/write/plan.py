"""How a model is captured: the values that a decorator, a `with` block or the environment settle."""

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
"""Those of torch's profiler that are handed on."""

DECIDED_HERE = frozenset({"schedule", "on_trace_ready", "execution_trace_observer", "acc_events", "use_cuda"})
"""Those of torch's profiler that a capture settles itself."""


@dataclass(frozen=True)
class CapturePlan:
    """What is captured, how often, and where it goes."""

    directory: Path
    model_name: str | None = None
    """The class's name where it is None."""
    record_shapes: bool = True
    profile_memory: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    """More of torch's profiler: see `PROFILER_OPTIONS`."""
    every: int = 1
    warmup: int = 0
    most: int | None = None
    gzip: bool = False
    manifest: Path | None = None
    """A file that gets a line for every trace written, for whoever started this process."""


@dataclass(frozen=True)
class LayerTime:
    """The time of one module in one pass, by our own clock on the CPU."""

    path: str
    class_name: str
    calls: int
    own_ns: int
    """Without the modules it called: these add up to the pass."""
    total_ns: int
    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    """The distinct shapes of its inputs, in order of appearance."""


@dataclass(frozen=True)
class CapturedPass:
    """One finished pass: what was learned, and the file it is in."""

    facts: TraceFacts
    layers: tuple[LayerTime, ...]
    took_ns: int
    path: Path | None
    """None where there is no file; `problem` says why."""
    problem: str | None = None


class CaptureLog(Protocol):
    """Who is told what happens; nothing here prints."""

    def debug(self, line: str) -> None:
        """A decision, for those who ask."""

    def warn(self, line: str) -> None:
        """Something that went wrong beside the model's own work."""

    def passed(self, captured: CapturedPass) -> None:
        """A pass has ended."""

    def table(self, captured: CapturedPass) -> str:
        """The layers of a pass, as text."""


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what torch's profiler would not take, in one line."""
    for name in options:
        if name in DECIDED_HERE:
            raise UsageError(
                f"capture_model settles {name!r} itself: "
                "which passes are captured is said with --every, --warmup and --max of `assay run`"
            )
        if name not in PROFILER_OPTIONS:
            known = ", ".join(sorted(PROFILER_OPTIONS))
            raise UsageError(f"capture_model has no option {name!r}: of torch's profiler it takes {known}")
