"""What rules need of a document, each with the words for a document that does not have it."""

from __future__ import annotations

from assay.findings.facts import ModelFacts
from assay.findings.rule import Need


def _whole_pass(facts: ModelFacts) -> str:
    document = facts.document
    if not document.ops:
        return "no operation was watched"
    return "" if document.complete else "the forward pass stopped before its end"


def _flow(facts: ModelFacts) -> str:
    known = any(op.reads for op in facts.document.ops)
    return "" if known else "the document does not say which operation reads what another made"


def _statistics(facts: ModelFacts) -> str:
    weights = facts.document.weights
    if weights is None:
        return "the bytes of the weights have not been read"
    return "" if any(row.zeros is not None for row in weights.tensors) else "there are no statistics of the weights"


MODULES = Need("modules", lambda facts: "" if facts.document.modules else "the document has no modules")
WHOLE_PASS = Need("a whole pass", _whole_pass)
EVALUATION = Need(
    "a pass in evaluation mode",
    lambda facts: "the pass was made in training mode" if facts.document.run.training else "",
)
FLOW = Need("what each operation reads", _flow)
TRAINING_STEP = Need(
    "a training step", lambda facts: "no training step was watched" if facts.document.training is None else ""
)
CACHE = Need(
    "a key and value cache",
    lambda facts: "the pass left no key and value cache" if facts.document.run.cache is None else "",
)
STATISTICS = Need("statistics of the weights", _statistics)
