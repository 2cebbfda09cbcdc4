"""The result of `assay.analyze` as plain data, which the reports print."""

from __future__ import annotations

from msgspec import Struct, field

from assay.analysis.architecture import Architecture
from assay.analysis.memory import Memory
from assay.document.document import Document
from assay.findings.engine import CheckResult

CodeOp = tuple[str, str, str]
"""An op in code that was read but not run: the function that contains it, the op's name, its arguments."""


class Analysis(Struct, frozen=True):
    """Everything that was determined about a model, and the reasons for what was not."""

    document: Document
    """The model's modules, tensors and ops, with cost, timing and weight statistics if they were computed."""
    depth: str
    """`structure`, `inference` or `profile`: how much was measured."""
    architecture: Architecture
    """The recognised architecture: its family, traits and layers."""
    checked: CheckResult
    """The findings, and the rules that were skipped."""
    memory: Memory | None = None
    """The memory the model needs; None if only the sizes of its weights are known."""
    missing: dict[str, str] = field(default_factory=dict)
    """Parts of the analysis that have no result, each with the reason."""
    code: list[CodeOp] = field(default_factory=list)
    """Ops in the code of a TorchScript file that was read but not run."""
