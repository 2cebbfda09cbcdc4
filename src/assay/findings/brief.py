"""The brief of a result as data: what it is, what limits it, what to do next, what is wrong, what is unknown.

Every view that opens with an answer draws this one structure. It holds figures with their provenance, and words where
there is no figure. `brief_model` builds it for models, `brief_weights` for checkpoints, `brief_trace` for traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from assay import units
from assay.display import Displayed
from assay.document.findings import TIME, Finding
from assay.document.provenance import Figure

Unit = Literal["seconds", "bytes", "joules", "count", "share", "ratio"]
"""How a view formats the value of a figure."""


class BriefFigure(Struct, frozen=True):
    """One line of the answer: `Time  128 ms (124 to 135)   92 % in convolutions`."""

    label: str
    """`Time`, `Memory`, `Limit`, `Energy`: one or two words."""
    figure: Figure
    """The value with its provenance."""
    unit: Unit = "count"
    text: str = ""
    """What the figure is of: `per pass`, `peak, at layer1.1.bn3`."""
    detail: str = ""
    """The second thing to know, as where most of it goes; narrow views may omit it."""


class NotKnown(Struct, frozen=True):
    """Something that is not known, and why or how to learn it."""

    what: str
    why: str = ""


class Brief(Displayed, Struct, frozen=True):
    """What a person should know first."""

    identity: tuple[str, ...]
    """What it is, from the name on: `("ResNet", "CNN", "25.6 M parameters", "4.09 G MACs", "input 1x3x224x224")`."""
    figures: list[BriefFigure] = []
    actions: list[Finding] = []
    """What to do next, most valuable first; at most `MAX_ACTIONS`."""
    more_actions: int = 0
    """Suggestions beyond `actions`."""
    next_step: str = ""
    """The command that tries the actions or shows more: `assay check model.py::load --try`."""
    tries: bool = False
    """Whether `next_step` tries the actions."""
    problems: list[Finding] = []
    """Errors and warnings, most severe first; at most `MAX_PROBLEMS`. Empty if nothing is known to be wrong."""
    more_problems: int = 0
    """Errors and warnings beyond `problems`."""
    clean: str = ""
    """What was examined without finding a problem: `weights or outputs`; empty if nothing was."""
    remarks: list[Finding] = []
    """Notes about values that explain results without being wrong: BatchNorm layers that were never updated."""
    unknown: list[NotKnown] = []
    partial: bool = False
    """Whether the figures cover only a part of the pass or file."""


class Judgement(NamedTuple):
    """The findings of a brief, sorted into what to do, what is wrong, and what explains the values."""

    actions: list[Finding]
    problems: list[Finding]
    remarks: list[Finding]


MAX_ACTIONS = 3
MAX_PROBLEMS = 3
_COMPILE = "torch.compile"
_ABOUT_VALUES = ("W1", "A1")
"""The rules about the values of weights and outputs: their notes belong beside the problems."""


def judge(findings: Sequence[Finding]) -> Judgement:
    """Sort the findings. Actions state what following them saves: time first, then by their share."""
    worth = [one for one in findings if one.severity != "note" and _share(one) > 0]
    actions: dict[str, Finding] = {}
    for one in sorted(worth, key=lambda one: (one.gain is None or one.gain.of != TIME, -_share(one))):
        actions.setdefault(_means(one), one)
    return Judgement(
        list(actions.values()),
        [one for one in findings if one.severity in ("error", "warning")],
        [one for one in findings if one.severity == "note" and one.code.startswith(_ABOUT_VALUES)],
    )


def brief_of(
    identity: Sequence[str],
    figures: Sequence[BriefFigure],
    findings: Sequence[Finding],
    unknown: Sequence[NotKnown],
    *,
    clean: str = "",
    next_step: str = "",
    tries: bool = False,
    partial: bool = False,
) -> Brief:
    """A brief whose actions and problems are those of `findings`; `next_step` is left out if there is no action."""
    actions, problems, remarks = judge(findings)
    return Brief(
        identity=tuple(filter(None, identity)),
        figures=list(figures),
        actions=actions[:MAX_ACTIONS],
        more_actions=len(actions[MAX_ACTIONS:]),
        next_step=next_step if actions else "",
        tries=tries and bool(actions),
        problems=problems[:MAX_PROBLEMS],
        more_problems=len(problems[MAX_PROBLEMS:]),
        clean=clean,
        remarks=remarks[:1],
        unknown=list(unknown),
        partial=partial,
    )


def largest_share(shares: Mapping[str, float]) -> str:
    """`92 % in Convolution`; empty if no share is known."""
    name = max(shares, key=lambda one: shares[one], default=None)
    return f"{units.share(shares[name], 1)} in {name}" if name is not None and shares[name] else ""


def _means(finding: Finding) -> str:
    """What following the advice means: `torch.compile`, which several rules advise, or what the finding states."""
    first_clause = finding.advice.partition(": ")[0]
    return _COMPILE if _COMPILE in first_clause else finding.title


def _share(finding: Finding) -> float:
    return (finding.gain.share.value or 0.0) if finding.gain is not None else 0.0
