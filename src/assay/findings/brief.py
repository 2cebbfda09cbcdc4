"""The brief of a result as data: what it is, what limits it, what to do next, what is wrong, what is unknown.

Every view that opens with an answer draws this one structure. It holds figures with their provenance, and words where
there is no figure. `brief_model` builds it for models, `brief_weights` for checkpoints, `brief_trace` for traces.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from assay.document.findings import Finding
from assay.document.provenance import Figure

Unit = Literal["seconds", "bytes", "joules", "count", "share", "ratio"]
"""How a view formats the value of a figure."""


class BriefFigure(Struct, frozen=True):
    """One line of the answer: `Time  128 ms (124 to 135)   92 % in convolutions`."""

    label: str
    """`Time`, `Memory`, `Limit`, `Energy`: one or two words."""
    figure: Figure | None = None
    """The value with its provenance; None for an answer in words alone."""
    unit: Unit = "count"
    text: str = ""
    """The answer in words, or what qualifies the figure: `per pass`, `peak, at layer1.1.bn3`."""
    detail: str = ""
    """The second thing to know, as where most of it goes; narrow views may omit it."""


class NotKnown(Struct, frozen=True):
    """Something that is not known, and why or how to learn it."""

    what: str
    why: str = ""


class Brief(Struct, frozen=True):
    """What a person should know first."""

    identity: tuple[str, ...]
    """What it is, from the name on: `("ResNet", "CNN", "25.6 M parameters", "4.09 GMACs", "input 1x3x224x224")`."""
    figures: list[BriefFigure] = []
    actions: list[Finding] = []
    """What to do next, most valuable first; at most `MAX_ACTIONS`."""
    more_actions: int = 0
    """Suggestions beyond `actions`."""
    next_step: str = ""
    """The command that tries the actions or shows more: `assay check model.py::load --try`."""
    problems: list[str] = []
    """What is wrong, one line each: `NaN in layers.7.weight`. Empty if nothing is known to be wrong."""
    clean: str = ""
    """What was looked at and found to be fine, if there is no problem: `none in weights or outputs`."""
    unknown: list[NotKnown] = []
    partial: bool = False
    """Whether the figures cover only a part of the pass or file."""


MAX_ACTIONS = 3
