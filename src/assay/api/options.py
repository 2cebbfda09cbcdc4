"""How a model is opened and run: one value that every verb hands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.document.document import Origin

OnStep = Callable[[str], None]
"""Called with a line of text before each step of something long."""


@dataclass(frozen=True)
class RunOptions:
    """How a model is opened and run."""

    mode: str = "auto"
    """`auto` (with data where the weights are in memory, else on shapes alone), `real`, `meta` or `fake`."""
    device: str | None = None
    """The torch device to run on; None leaves the model where it is."""
    dtype: str | None = None
    """The floating-point type to run in; None keeps the model's own."""
    train: bool = False
    """Run in training mode."""
    backward: bool = False
    """Run a training step as well, which implies training mode."""
    model_args: Mapping[str, Any] | None = None
    """Keyword arguments for the function or class that builds the model."""
    trust: bool = False
    """Allow code from the file to run."""

    @property
    def without_data(self) -> bool:
        """Whether the pass runs on shapes alone."""
        return self.mode in ("meta", "fake")

    def refuse_for(self, origin: Origin, **others: bool) -> None:
        """Refuse, rather than ignore, options that change a pass where there is none: in a file that is only read.

        `others` are further options by name, and whether each was given.
        """
        default = RunOptions()
        names = [name for name, given in others.items() if given]
        names += [name for name in ("device", "dtype", "train") if getattr(self, name) != getattr(default, name)]
        names += [self.mode] * (self.mode != default.mode)
        if names:
            listed = ", ".join(f"--{name.replace('_', '-')}" for name in names)
            remedy = "; pass --trust to run it" if origin.kind == "exported" else ""
            raise UsageError(f"{origin.location} is read, not run: {listed} cannot apply to it{remedy}")
