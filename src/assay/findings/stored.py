"""The tensors of a checkpoint as rules read them: which there are, and how they are named and added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from assay.document.provenance import Counted, Figure
from assay.document.weights import TensorStatistics
from assay.findings.catalogue import rule
from assay.findings.facts import ModelFacts
from assay.findings.naming import folded, listed
from assay.findings.needs import STATISTICS
from assay.findings.rule import RuleMatch

BY_BYTES = Counted("every number of the stored tensors")
MATRIX_LEAST = 64
"""Tensors with fewer numbers are settings more than weights."""
_WEIGHTS = ("weight", "proj", "kernel")
_FLOATS = ("float16", "bfloat16", "float32", "float64")

weights_rule = partial(rule, needs=(STATISTICS,))
"""The decorator of a rule that reads the statistics of stored tensors."""


def rows(facts: ModelFacts) -> list[TensorStatistics]:
    """The tensors with statistics."""
    weights = facts.document.weights
    return [row for row in weights.tensors if row.zeros is not None] if weights is not None else []


def matrices(facts: ModelFacts) -> list[TensorStatistics]:
    """Floating tensors of two dimensions or more that products are made with, by their names."""
    return [
        row
        for row in rows(facts)
        if is_floating(row) and len(row.shape) > 1 and row.count >= MATRIX_LEAST and _is_weight(row.names[0])
    ]


def _is_weight(name: str) -> bool:
    """Whether a tensor is named as a layer's matrix is: `q_proj.weight`, `weight_ih_l0`, `experts.down_proj`."""
    last = name.rpartition(".")[2].lower()
    return any(part in last for part in _WEIGHTS) and "bias" not in last


def is_floating(row: TensorStatistics) -> bool:
    """Whether it is of a floating type with wide enough a range to store numbers as they are."""
    return row.dtype in _FLOATS


def names(found: Sequence[TensorStatistics]) -> list[str]:
    """The first name of each."""
    return [row.names[0] for row in found]


def total(found: Sequence[TensorStatistics], value: Callable[[TensorStatistics], int | None]) -> int:
    """The sum of a figure over tensors."""
    return sum(value(row) or 0 for row in found)


def in_tensors(found: Sequence[TensorStatistics], title: str, **figures: float) -> RuleMatch:
    """A match about tensors, whose names end its title; its figures were counted from their bytes."""
    evidence = {name: Figure(value, BY_BYTES) for name, value in figures.items()}
    return RuleMatch(f"{title}: {listed(folded(names(found)))}", evidence, tensors=names(found))
