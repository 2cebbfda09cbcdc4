"""Figures of a whole model, each with its provenance: what budgets limit and comparisons compare."""

from __future__ import annotations

from collections.abc import Callable

from assay.analysis.memory import Memory
from assay.analysis.parameters import Parameters
from assay.document.cost import Cost, CostTotals
from assay.document.document import Document
from assay.document.provenance import Counted, Figure, Unknown

BY_FORMULA = Counted("cost formulas applied to the recorded pass")
BY_TENSORS = Counted("shapes and dtypes of parameters and buffers, tied tensors counted once")
NO_PASS = Figure(None, Unknown("no forward pass was recorded"))


def parameter_count(counted: Parameters) -> Figure:
    """The number of parameters; of all tensors if only a checkpoint is known."""
    if counted.count is not None:
        return Figure(counted.count, BY_TENSORS)
    if counted.stored is not None and counted.stored.elements is not None:
        return Figure(counted.stored.elements, Counted("all tensors of the checkpoint"))
    return Figure(None, Unknown("the parameters are unknown"))


def weight_bytes(memory: Memory) -> Figure:
    """The bytes of parameters and buffers."""
    known = [figure.value for figure in (memory.parameters, memory.buffers) if figure.value is not None]
    if not known:
        return memory.parameters
    return Figure(sum(known), Counted("bytes of parameters and buffers, each storage once"))


def pass_total(document: Document, cost: Cost | None, read: Callable[[CostTotals], float | None]) -> Figure:
    """A total over the ops of the forward pass whose cost is known."""
    known = cost is not None and document.recorded and cost.forward.recorded
    value = read(cost.forward) if cost is not None and known else None
    return NO_PASS if value is None else Figure(value, BY_FORMULA)


def pass_time(document: Document) -> Figure:
    """The seconds of one pass."""
    if document.profile is not None and document.profile.whole.value is not None:
        return document.profile.whole
    if document.timing is not None:
        return document.timing.whole
    return Figure(None, Unknown("the pass was not timed"))
