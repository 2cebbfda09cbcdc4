"""The messages between the process that asks for trials and the child that runs them, as plain data.

The parent writes one `TrialPlan`. The child appends one event per line, so that a crash loses only the trial in
progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.document.trials import TrialResult


class StackTrial(Struct, frozen=True, omit_defaults=True):
    """A stack of changes to try, against the original or against another stack."""

    changes: tuple[str, ...]
    """Changes in the order in which they are applied, as `channels_last` or `threads=2`."""
    against: tuple[str, ...] = ()
    """The changes of the model it is compared with; empty for the original."""

    @property
    def name(self) -> str:
        """The changes on one line: `channels_last + threads=2`."""
        return " + ".join(self.changes)


class TrialSettings(Struct, frozen=True, omit_defaults=True):
    """How models are opened, placed and measured in trials."""

    device: str | None = None
    """The torch device to run on; null for where the model is."""
    dtype: str | None = None
    """The floating-point dtype to run in; null for the model's own."""
    training: bool | None = False
    """Whether modules run in training mode; null if each runs in its own."""
    backward: bool = False
    """Whether training steps are measured instead of forward passes."""
    seconds: float = 10.0
    """Seconds to measure per trial."""
    limit_s: float = 120.0
    """Seconds after which a trial is stopped, including the time to apply its changes."""
    energy: bool = True
    """Whether energy is measured where a sensor covers the device, which takes some ten seconds per trial."""
    seed: int = 0
    """The seed of torch's random numbers before the model is built and before passes that are compared."""


class TrialPlan(Struct, frozen=True, omit_defaults=True):
    """What a child process does."""

    subject: str
    """The file that holds the model or its specifier, and the inputs."""
    trials: list[StackTrial]
    settings: TrialSettings
    parent: int
    """The process that waits for the results; without it, the child ends."""
    modules: list[str] = []
    """Modules that register changes beyond those of Assay."""
    torch: dict[str, Any] = {}
    """Settings of torch in the parent, by name."""


class Expanded(Struct, frozen=True, tag="expanded"):
    """The model is open; these are the trials, with one for each value of a change that takes several."""

    trials: list[StackTrial]


class Begun(Struct, frozen=True, tag="begin"):
    """A trial begins."""

    trial: int


class Ended(Struct, frozen=True, tag="end"):
    """A trial has ended."""

    trial: int
    result: TrialResult


class Broken(Struct, frozen=True, tag="broken"):
    """The model cannot be opened or run, so that nothing can be tried."""

    why: str


TrialEvent = Expanded | Begun | Ended | Broken

Emit = Callable[[TrialEvent], None]


class TrialProgress(NamedTuple):
    """Which trial is running."""

    number: int
    """1-based number of the trial."""
    trials: int
    """Number of trials, as far as known."""
    name: str
    """The changes that are tried; empty while the model is opened."""
    seconds: float
    """Seconds since the trial began."""


OnTrial = Callable[[TrialProgress], None]


def append_event(path: Path, event: TrialEvent) -> None:
    """Append one event to the results."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(event) + b"\n")


class EventReader:
    """Reads the events that were appended to a file since the last call of `new`."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def new(self) -> Iterator[TrialEvent]:
        """The new events; a line that is still being written is left for the next call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield msgspec.json.decode(line, type=TrialEvent)
