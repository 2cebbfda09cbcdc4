"""A comparison of two documents, as rows. Unknown values are null and compare as unknown, never as zero."""

from __future__ import annotations

from msgspec import Struct

from assay.analysis.comparison.verdicts import LESS, MORE
from assay.document.provenance import Figure

ADDED, REMOVED, CHANGED, MOVED, SAME = "added", "removed", "changed", "moved", "same"
STATES = (ADDED, REMOVED, CHANGED, MOVED, SAME)
"""The states of modules, tensors and ops; `moved` is the same under another name."""

NEW, GONE, STILL_THERE = "new", "gone", "still there"
"""The states of findings."""

OF_PASS, OF_MACHINE = "figures of the pass", "times and energy"
"""What a condition affects."""


class ComparedDocument(Struct, frozen=True):
    """One of the two documents."""

    name: str
    """The class of the model, or the name of its file."""
    location: str
    """Where the model came from, as the user gave it."""
    timestamp: str
    """The local time of the run in ISO 8601; empty if unknown."""


class ConditionChange(Struct, frozen=True):
    """A condition of the run that differs, so that some figures cannot be compared."""

    name: str
    """`inputs`, `device`, `torch`, …"""
    before: str
    after: str
    affects: str
    """`figures of the pass` (and so also its time) or `times and energy`."""


class TotalChange(Struct, frozen=True, omit_defaults=True):
    """A figure of the whole model."""

    name: str
    unit: str
    """`count`, `bytes`, `seconds` or `joules`."""
    before: Figure
    after: Figure
    difference: float | int | None
    """`after` − `before`; null if either is unknown."""
    ratio: float | None
    """`after` ÷ `before`; null if either is unknown or `before` is zero."""
    verdict: str
    """`less`, `more`, `equal`, `not significant` (the ranges of measurements overlap) or `unknown`."""
    note: str = ""
    """What the values leave out; empty if nothing."""


class ComparedModule(Struct, frozen=True, omit_defaults=True):
    """A module in one of the documents; sums include its submodules."""

    index: int
    """Index into `Document.modules`."""
    path: str
    class_name: str
    parameters: int | None = None
    flops: int | None = None
    """FLOPs of the forward pass whose formulas are known; null if none is known."""
    time_s: float | None = None
    """Seconds per pass; null if unknown."""


class ModuleChange(Struct, frozen=True, omit_defaults=True):
    """A module of either document; each is in exactly one row."""

    state: str
    """`added`, `removed`, `changed`, `moved` or `same`."""
    before: ComparedModule | None
    """Null if it was added."""
    after: ComparedModule | None
    """Null if it was removed."""
    changes: tuple[str, ...] = ()
    """What changed, in words: `class is GELU, not SiLU`."""
    time_verdict: str = ""
    """`less`, `more`, `equal`, `not significant` or `unknown`; empty unless both were timed."""
    covered: bool = False
    """Whether the module around it was added, removed or moved in the same way, so that its row covers this one."""

    @property
    def shown(self) -> ComparedModule:
        """The module as it is after the change; before it, if it was removed."""
        module = self.after or self.before
        assert module is not None
        return module


class ComparedTensor(Struct, frozen=True, omit_defaults=True):
    """A parameter or buffer in one of the documents; statistics are null if its values were not read."""

    names: tuple[str, ...]
    """Its names, several if it is tied."""
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    role: str = ""
    """`parameter` or `buffer`; empty if unknown."""
    trainable: bool | None = None
    """Whether it has a gradient; null if unknown."""
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None


class TensorChange(Struct, frozen=True, omit_defaults=True):
    """A parameter or buffer of either document; each is in exactly one row."""

    state: str
    """`added`, `removed`, `changed`, `moved` or `same`."""
    before: ComparedTensor | None
    """Null if it was added."""
    after: ComparedTensor | None
    """Null if it was removed."""
    changes: tuple[str, ...] = ()
    """What changed, in words: `64x32, not 64x16`."""
    values_equal: bool | None = None
    """Whether all values are equal; null if they were not read on both sides, or if the shape or dtype changed."""
    covered: bool = False
    """Whether its module was added, removed or moved, so that the row of the module covers this one."""

    @property
    def shown(self) -> ComparedTensor:
        """The tensor as it is after the change; before it, if it was removed."""
        tensor = self.after or self.before
        assert tensor is not None
        return tensor


class OpChange(Struct, frozen=True, omit_defaults=True):
    """All ops of one name in the forward pass."""

    name: str
    """The public Python name: `torch.conv2d`."""
    state: str
    """`added`, `removed`, `changed` or `same`; `same` if the executions on a side are unknown."""
    before: int | None
    """Executions before; null if no pass was recorded."""
    after: int | None
    """Executions after; null if no pass was recorded."""


class FindingChange(Struct, frozen=True, omit_defaults=True):
    """A finding of either document."""

    state: str
    """`new`, `gone` or `still there`."""
    code: str
    severity: str
    title: str
    """The title after the change; before it, if the finding is gone."""
    before: int | None = None
    """Index into the findings before; null if it is new."""
    after: int | None = None
    """Index into the findings after; null if it is gone."""


class Comparison(Struct, frozen=True):
    """What changed from one document to another."""

    before: ComparedDocument
    after: ComparedDocument
    conditions: list[ConditionChange]
    """The conditions that differ, which make figures incomparable."""
    totals: list[TotalChange]
    """Figures of the whole model, those that are unknown included."""
    modules: list[ModuleChange]
    """All modules of both documents, in the order after the change; removed ones behind their neighbours."""
    tensors: list[TensorChange]
    """All parameters and buffers of both documents, in the same order."""
    ops: list[OpChange]
    """The ops of both passes, in the order in which they first ran."""
    findings: list[FindingChange]
    """The findings of both documents: those after the change, then those that are gone."""

    @property
    def identical(self) -> bool:
        """Whether nothing is known to differ."""
        states = (row.state for rows in (self.modules, self.tensors, self.ops) for row in rows)
        return (
            not self.conditions
            and not any(total.verdict in (LESS, MORE) for total in self.totals)
            and all(state == SAME for state in states)
            and all(finding.state == STILL_THERE for finding in self.findings)
        )
