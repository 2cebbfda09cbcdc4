"""What a page is about: a document, what follows from it, and how its commands are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from assay.analysis.achieved import Achieved
from assay.analysis.comparison import Comparison
from assay.analysis.cost.totals import add_up
from assay.analysis.devices import Device
from assay.analysis.memory import Memory, memory_of
from assay.document.cost import Cost
from assay.document.document import Document
from assay.document.machine import MachineReport
from assay.findings.brief import Brief
from assay.findings.engine import CheckResult
from assay.messages import as_utf8


@dataclass(frozen=True)
class Subject:
    """A document with everything that the views of its page show."""

    document: Document
    checked: CheckResult
    """Its findings, and the rules that were skipped."""
    brief: Brief | None
    rows: list[Achieved] = field(default_factory=list)
    """Its timed kinds of op, with their bottlenecks if the limits of the machine are known."""
    device: Device | None = None
    """The machine it was made on, with its limits."""
    limits: MachineReport | None = None
    """The measurement of these limits."""
    source: str = ""
    """The model as on the command line; empty if it is unknown."""
    missing: dict[str, str] = field(default_factory=dict)
    """Parts of an analysis that have no result, each with the reason."""
    comparison: Comparison | None = None
    """How it differs from another document; None if it was not compared."""
    full: bool = False
    """Whether details of every tensor are included, however many there are."""

    @cached_property
    def cost(self) -> Cost:
        """Its cost, computed if the document does not have it."""
        return self.document.cost if self.document.cost is not None else add_up(self.document)

    @cached_property
    def memory(self) -> Memory | None:
        """The memory that the model needs; None if there are no tensors."""
        step = self.document.profile.step if self.document.profile is not None else None
        optimizer = step.optimizer_name if step is not None else ""
        return memory_of(self.document, optimizer=optimizer or "adamw") if self.document.tensors else None

    @property
    def model(self) -> str:
        """The model as a command names it."""
        origin = self.document.origin
        location = origin.location.replace(":", "::", 1) if origin.kind == "file" else origin.location
        return as_utf8(self.source) or location or "MODEL"
