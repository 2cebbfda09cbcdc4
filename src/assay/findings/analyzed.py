"""The result of `assay.analyze` as plain data, which the reports print."""

from __future__ import annotations

from msgspec import Struct, field

from assay.analysis.architecture import Architecture
from assay.analysis.memory import Memory
from assay.display import Displayed
from assay.document.document import Document
from assay.findings.engine import CheckResult

CodeOp = tuple[str, str, str]
"""An op in code that was read but not run: the function that contains it, the op's name, its arguments."""


class Analysis(Displayed, Struct, frozen=True):
    """Everything that was determined about a model, and the reasons for what was not.

    Attributes:
        document: The model's modules, tensors and ops, with cost, timing and weight statistics if they were computed.
        depth: `structure`, `inference` or `profile`: how much was measured.
        architecture: The recognised architecture: its family, traits and layers.
        checked: The findings, and the rules that were skipped.
        memory: The memory the model needs; None if only the sizes of its weights are known.
        missing: Parts of the analysis that have no result, each with the reason.
        code: Ops in the code of a TorchScript file that was read but not run.
    """

    document: Document
    depth: str
    architecture: Architecture
    checked: CheckResult
    memory: Memory | None = None
    missing: dict[str, str] = field(default_factory=dict)
    code: list[CodeOp] = field(default_factory=list)

    @property
    def partial(self) -> bool:
        """Whether a requested pass stopped midway, so that totals cover only the ops before it stopped."""
        return self.document.stopped
