"""Everything an analysis found about a model, as plain data: what `assay.analyze` returns and reports show."""

from __future__ import annotations

from msgspec import Struct, field

from assay.analysis.architecture import Architecture
from assay.analysis.memory import Memory
from assay.document.document import Document
from assay.findings.engine import CheckResult

CodeOp = tuple[str, str, str]
"""An operation in code that was read and not run: its function, its name, its arguments."""


class Analysis(Struct, frozen=True):
    """Everything found, and what could not be."""

    document: Document
    depth: str
    architecture: Architecture
    checked: CheckResult
    memory: Memory | None = None
    """None where only the sizes of the weights are known."""
    missing: dict[str, str] = field(default_factory=dict)
    """What is unknown, and why."""
    code: list[CodeOp] = field(default_factory=list)
    """Operations in the code of a TorchScript file that was not run."""
