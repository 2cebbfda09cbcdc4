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
    """How far a measurement has come."""

    stage: str
    """What is being done: `timing modules and ops`."""
    number: int
    """1-based number of the stage."""
    stages: int
    """Number of stages."""
    left_s: float | None
    """Seconds left of the budget; None without a budget."""
    done: float | None = None
    """Share of this stage that is done, from 0 to 1; None if unknown."""


OnProgress = Callable[[Progress], None]
"""A callback that receives the progress of a long measurement, at least once per stage."""


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
