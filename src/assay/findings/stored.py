"""Helpers for rules about stored weights: selecting tensors with statistics, naming them and summing their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from assay.document.findings import Gain
from assay.document.provenance import Counted, Figure
from assay.document.weights import TensorStatistics
from assay.findings.catalogue import rule
from assay.findings.facts import ModelFacts
from assay.findings.gains import bytes_gain
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import STATISTICS
from assay.findings.rule import RuleMatch

BY_BYTES = Counted("all values of the stored tensors")
MIN_ELEMENTS = 64
"""Elements; smaller tensors are more like settings than weights."""
_WEIGHT_NAMES = ("weight", "proj", "kernel")
_FLOATS = ("float16", "bfloat16", "float32", "float64")

weights_rule = partial(rule, needs=(STATISTICS,))
"""The decorator for a rule that needs weight statistics."""


def rows(facts: ModelFacts) -> list[TensorStatistics]:
    """The tensors that have statistics."""
    weights = facts.document.weights
    return [row for row in weights.tensors if row.zeros is not None] if weights is not None else []


def matrices(facts: ModelFacts) -> list[TensorStatistics]:
    """Floating-point tensors with at least two dimensions whose name is that of a layer's weight."""
    return [
        row
        for row in rows(facts)
        if is_floating(row) and len(row.shape) > 1 and row.count >= MIN_ELEMENTS and _is_weight(row.names[0])
    ]


def _is_weight(name: str) -> bool:
    """Whether the name is that of a layer's weight: `q_proj.weight`, `weight_ih_l0`, `experts.down_proj`."""
    last = name.rpartition(".")[2].lower()
    return any(part in last for part in _WEIGHT_NAMES) and "bias" not in last


def is_floating(row: TensorStatistics) -> bool:
    """Whether the dtype is a floating-point type of at least 16 bits, which needs no scale."""
    return row.dtype in _FLOATS


def names(tensors: Sequence[TensorStatistics]) -> list[str]:
    """The first name of each tensor."""
    return [row.names[0] for row in tensors]


def total(tensors: Sequence[TensorStatistics], value: Callable[[TensorStatistics], int | None]) -> int:
    """The sum of `value` over the tensors; None counts as zero."""
    return sum(value(row) or 0 for row in tensors)


def stored_bytes(facts: ModelFacts) -> int:
    """The bytes of all stored tensors."""
    weights = facts.document.weights
    return sum(row.bytes for row in weights.tensors) if weights is not None else 0


def saving(facts: ModelFacts, saved: float) -> Gain:
    """A gain of `saved` stored bytes, counted from the values."""
    return bytes_gain(saved, stored_bytes(facts), BY_BYTES)


def in_tensors(
    affected: Sequence[TensorStatistics], title: str, *, gain: Gain | None = None, severity: str = "", **values: float
) -> RuleMatch:
    """A match for `affected`, whose names are appended to the title; `values` is the evidence, counted from them."""
    evidence = {name: Figure(value, BY_BYTES) for name, value in values.items()}
    title = f"{title}: {joined_names(fold_names(names(affected)))}"
    return RuleMatch(title, evidence, tensors=names(affected), gain=gain, severity=severity)
