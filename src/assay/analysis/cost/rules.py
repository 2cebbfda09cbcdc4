"""Formulas shared by several families: no arithmetic, or a fixed number of ops per element."""

from __future__ import annotations

from assay.analysis.cost.reading import first, numel, operand, result_numel
from assay.analysis.cost.registry import WorkRule
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind


def free(kind: OpKind) -> Work:
    """A formula: no arithmetic."""
    return Work()


def per_operand(ops: int, *names: str) -> WorkRule:
    """A formula: `ops` ops per element of the first operand with one of the names, or of the first without names."""
    return lambda kind: Work(pointwise=ops * numel(operand(kind, *names) if names else first(kind)))


def per_largest(ops: int) -> WorkRule:
    """A formula: `ops` ops per element of the largest input."""
    return lambda kind: Work(pointwise=ops * max(numel(each.type) for each in kind.inputs))


def per_result(ops: int) -> WorkRule:
    """A formula: `ops` ops per element of the first output."""
    return lambda kind: Work(pointwise=ops * result_numel(kind))
