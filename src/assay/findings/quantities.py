"""What a budget can limit: one entry per quantity, with its unit and how it is read from a checked document."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from assay.analysis.memory import Memory, memory_of
from assay.analysis.model_figures import NO_PASS, parameter_count, pass_total, weight_bytes
from assay.analysis.parameters import parameters
from assay.document.cost import CostTotals
from assay.document.document import Document
from assay.document.provenance import Counted, Figure, Unknown
from assay.findings.coverage import uncovered
from assay.findings.engine import CheckResult
from assay.findings.facts import BY_PASS

COUNT, BYTES = "count", "bytes"
_BY_RULES = Counted("findings of the rules that were applied")


class BudgetFacts(Struct, frozen=True):
    """What the quantities of a budget are read from."""

    document: Document
    checked: CheckResult | None = None
    """The findings; None if no rule was applied."""
    file_bytes: Figure | None = None
    """The size of the model's file; None if the model is not a file of weights."""


class BudgetAmount(Struct, frozen=True):
    """The value of a quantity."""

    value: Figure
    at_least: str = ""
    """Why the true value may be larger; empty if it is not."""


class BudgetQuantity(Struct, frozen=True):
    """Something that a budget can limit."""

    label: str
    """Its name in a table."""
    unit: str
    """`count` or `bytes`."""
    amount: Callable[[BudgetFacts], BudgetAmount]
    """Its value for a model."""
    training: bool = False
    """Whether it needs a training step."""
    by_rules: bool = False
    """Whether it needs the findings."""


def _parameters(facts: BudgetFacts) -> BudgetAmount:
    counted = parameters(facts.document)
    at_least = "files of the checkpoint could not be read" if counted.partial else ""
    return BudgetAmount(parameter_count(counted), at_least)


def _of_pass(read: Callable[[CostTotals], float | None]) -> Callable[[BudgetFacts], BudgetAmount]:
    """A reader of the totals of the forward pass; ops with unknown cost make its value a lower bound."""

    def amount(facts: BudgetFacts) -> BudgetAmount:
        cost = facts.document.cost
        unknown = "the FLOPs of some ops are unknown" if cost is not None and cost.forward.unknown_ops else ""
        return BudgetAmount(pass_total(facts.document, cost, read), _stopped(facts.document) or unknown)

    return amount


def _unknown_ops(facts: BudgetFacts) -> BudgetAmount:
    cost = facts.document.cost
    if cost is None or not facts.document.recorded:
        return BudgetAmount(NO_PASS)
    return BudgetAmount(Figure(cost.forward.unknown_ops, BY_PASS), _stopped(facts.document))


def _bytes_per_item(facts: BudgetFacts) -> BudgetAmount:
    document = facts.document
    shape = document.run.inputs[0].type.shape if document.run.inputs else ()
    if document.cost is None or not document.recorded:
        return BudgetAmount(NO_PASS)
    if not shape or not isinstance(shape[0], int) or shape[0] < 1:
        return BudgetAmount(Figure(None, Unknown("the first input has no batch dimension")))
    by = Counted(f"bytes read and written by the ops ÷ {shape[0]} (first dimension of the first input)")
    return BudgetAmount(Figure(document.cost.forward.bytes / shape[0], by), _stopped(document))


def _memory(read: Callable[[Memory], Figure]) -> Callable[[BudgetFacts], BudgetAmount]:
    """A reader of the peak memory of a pass."""
    return lambda facts: BudgetAmount(read(memory_of(facts.document)), _stopped(facts.document))


def _size(facts: BudgetFacts) -> BudgetAmount:
    if facts.file_bytes is not None:
        return BudgetAmount(facts.file_bytes)
    return BudgetAmount(weight_bytes(memory_of(facts.document)))


def occurrences(facts: BudgetFacts, word: str) -> BudgetAmount:
    """The number of findings of a code or severity; unknown if there are none and a rule for them was not applied."""
    if facts.checked is None:
        return BudgetAmount(Figure(None, Unknown("no rule was applied")))
    count = sum(word in (finding.code, finding.severity) for finding in facts.checked.findings)
    why = uncovered(facts.document, facts.checked, word)
    if why and not count:
        return BudgetAmount(Figure(None, Unknown(why)))
    return BudgetAmount(Figure(count, _BY_RULES), why)


def _findings(severity: str) -> Callable[[BudgetFacts], BudgetAmount]:
    """A reader of the number of findings of one severity."""
    return lambda facts: occurrences(facts, severity)


def _stopped(document: Document) -> str:
    return "the forward pass stopped before its end" if document.partial else ""


QUANTITIES: dict[str, BudgetQuantity] = {
    "parameters": BudgetQuantity("parameters", COUNT, _parameters),
    "flops": BudgetQuantity("FLOPs per pass", COUNT, _of_pass(lambda totals: totals.flops)),
    "macs": BudgetQuantity("MACs per pass", COUNT, _of_pass(lambda totals: totals.macs)),
    "peak-memory": BudgetQuantity("peak memory, inference", BYTES, _memory(lambda memory: memory.inference_peak)),
    "training-memory": BudgetQuantity(
        "peak memory, training", BYTES, _memory(lambda memory: memory.training_peak), training=True
    ),
    "bytes-per-item": BudgetQuantity("bytes moved per item", BYTES, _bytes_per_item),
    "size": BudgetQuantity("size of the weights", BYTES, _size),
    "unknown-ops": BudgetQuantity("ops with unknown FLOPs", COUNT, _unknown_ops),
    "errors": BudgetQuantity("errors", COUNT, _findings("error"), by_rules=True),
    "warnings": BudgetQuantity("warnings", COUNT, _findings("warning"), by_rules=True),
    "suggestions": BudgetQuantity("suggestions", COUNT, _findings("advice"), by_rules=True),
    "notes": BudgetQuantity("notes", COUNT, _findings("note"), by_rules=True),
}
"""By the key in a budget file."""
