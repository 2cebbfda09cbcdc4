"""Formulas that families share: no arithmetic, or so many operations an element of something."""

from __future__ import annotations

from assay.analysis.cost.reading import first, numel, operand, result_numel
from assay.analysis.cost.registry import WorkRule
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind


def free(kind: OpKind) -> Work:
    """No arithmetic at all."""
    return Work()


def per_operand(operations: int, *names: str) -> WorkRule:
    """So many operations an element of the first operand with one of the names; of the first at all without names."""
    return lambda kind: Work(pointwise=operations * numel(operand(kind, *names) if names else first(kind)))


def per_largest(operations: int) -> WorkRule:
    """So many operations an element of the largest tensor given."""
    return lambda kind: Work(pointwise=operations * max(numel(one.type) for one in kind.inputs))


def per_result(operations: int) -> WorkRule:
    """So many operations an element of the first tensor made."""
    return lambda kind: Work(pointwise=operations * result_numel(kind))
