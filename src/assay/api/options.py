"""Options for opening and running a model, shared by all public functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.api.arguments import check_flag
from assay.errors import UsageError
from assay.messages import ALLOW_CODE, one_line

if TYPE_CHECKING:
    from assay.document.document import Origin

OnStep = Callable[[str], None]
"""A callback that receives one line of text before each step of a long measurement."""


class Progress(NamedTuple):
    """How far a command has come."""

    stage: str
    """What is being done: `timing modules and ops`."""
    number: int = 0
    """1-based number of the stage; 0 if the stages are not numbered."""
    stages: int = 0
    """Number of stages."""
    left_s: float | None = None
    """Seconds left of the budget; None without a budget."""
    items: int = 0
    """How many units of this stage are done."""
    total: int | None = None
    """How many units there are; None if unknown."""
    unit: str = ""
    """What is counted, in the singular: `rule`, or `B` for bytes; empty if nothing is."""


OPENING, RECORDING, READING_WEIGHTS = "opening the model", "recording a pass", "reading weights"
READING_OUTPUTS = "reading outputs"
"""Stages that several commands have."""

OnProgress = Callable[[Progress], None]
"""A callback that receives the progress of a long measurement, at least once per stage."""


def unreported(_: object) -> None:
    """The callback of a caller that wants no reports."""


def by_step(on_step: OnStep | None) -> OnProgress:
    """A callback for progress that passes each new stage on to `on_step`."""
    if on_step is None:
        return unreported
    last = ""

    def report(progress: Progress) -> None:
        nonlocal last
        if progress.stage != last:
            last = progress.stage
            on_step(last)

    return report


@dataclass(frozen=True)
class RunOptions:
    """How to open and run a model."""

    mode: str = "auto"
    """`auto` (real data if the weights are in memory, shapes only otherwise), `real`, `meta` or `fake`."""
    device: str | None = None
    """The torch device to run on; Default: where the model is."""
    dtype: str | None = None
    """The floating-point dtype to run in; Default: the model's own."""
    train: bool = False
    """Run in training mode instead of evaluation mode."""
    backward: bool = False
    """Also run a training step, which implies training mode."""
    model_args: Mapping[str, Any] | None = None
    """Keyword arguments for the function or class that builds the model."""
    trust: bool = False
    """Allow code stored in the file to run."""
    as_is: bool = False
    """Run every module in the mode it is in."""

    def __post_init__(self) -> None:
        for name in ("train", "backward", "trust", "as_is"):
            check_flag(name, getattr(self, name))
        if self.as_is and (self.train or self.backward):
            other = "backward" if self.backward else "train"
            raise UsageError(f"as_is and {other} exclude each other: {other} runs all modules in training mode")

    @property
    def training(self) -> bool | None:
        """Whether the pass runs in training mode; None if each module runs in its own."""
        return None if self.as_is else self.train or self.backward

    @property
    def without_data(self) -> bool:
        """Whether the pass uses shapes only."""
        return self.mode in ("meta", "fake")

    def check_unused(self, origin: Origin, **others: bool) -> None:
        """Raise UsageError if any option is set that would affect a pass, for a file that is read and not run.

        `others` maps the names of further options to whether each was set.
        """
        default = RunOptions()
        names = [name for name, is_set in others.items() if is_set]
        names += [
            name for name in ("device", "dtype", "train", "as_is") if getattr(self, name) != getattr(default, name)
        ]
        names += [f"mode {self.mode}"] * (self.mode != default.mode)
        if names:
            example = "give the model itself, for example file.py::load_model"
            remedy = f"to run it, {ALLOW_CODE}" if origin.kind == "exported" else example
            which = f"{', '.join(names)} cannot be used with {one_line(origin.location)}"
            raise UsageError(f"{which}, which is not run: {remedy}")
