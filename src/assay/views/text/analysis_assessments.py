"""Pruning potential, quantization sensitivity and recommendations in an analysis: by kind of op, op and tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from assay import units
from assay.document.assessments import OpAssessment, TensorAssessment
from assay.document.cost import KindCost
from assay.document.document import Document
from assay.document.rows import OpKind
from assay.document.weights import Rounding
from assay.messages import plural
from assay.views.tables import Column, Table, percent
from assay.views.text.facts import notes_table
from assay.views.text.report import Parts, first_rows

Row = TypeVar("Row")
_REASONS = 3
"""Reasons without figures that are listed."""


class _KindRow(NamedTuple):
    """One kind of op with its cost per execution."""

    kind: OpKind
    executions: int
    cost: KindCost
    assessment: OpAssessment


def _recommendation(assessment: OpAssessment) -> str:
    return assessment.recommendation or f"{units.UNKNOWN} ({assessment.unknown})"


def _decibels(rounding: Rounding | None) -> str:
    if rounding is None or (not rounding.exact and rounding.sqnr_db is None):
        return units.UNKNOWN
    return "exact" if rounding.exact else f"{rounding.sqnr_db:.1f} dB"


def assessment_columns(of: Callable[[Row], OpAssessment | None]) -> tuple[Column[Row], ...]:
    """The columns of an op's assessment, which `of` returns; without figures, the last one states the reason."""

    def value(read: Callable[[OpAssessment], object]) -> Callable[[Row], object]:
        return lambda row: None if (found := of(row)) is None else read(found)

    return (
        Column("pruning potential", value(lambda one: one.pruning_potential), "right", percent),
        Column("int8", value(lambda one: one.int8), "right", _decibels, drops=2),
        Column("int4", value(lambda one: one.int4), "right", _decibels, drops=2),
        Column("quantization sensitivity", value(lambda one: one.quantization_sensitivity or None)),
        Column("recommendation", value(_recommendation), shrinks=True),
    )


_KINDS: tuple[Column[_KindRow], ...] = (
    Column("op", lambda row: row.kind.name, shrinks=True),
    Column("inputs", lambda row: units.shapes(one.type.shape for one in row.kind.inputs), drops=5),
    Column("type", lambda row: row.cost.category, drops=3),
    Column("count", lambda row: row.executions, "right", units.exact),
    Column("bytes", lambda row: row.cost.bytes, "right", units.size, drops=4),
    Column("FLOPs/byte", lambda row: row.cost.intensity, "right", units.ratio, drops=4),
    Column("roofline", lambda row: row.assessment.bound or None, drops=4),
    *assessment_columns(lambda row: row.assessment),
)


def assessment_section(document: Document, top: int | None = None) -> Parts:
    """What the weights of each kind of op allow, most FLOPs first."""
    if document.assessment is None or document.cost is None or not document.ops:
        return []
    counts = Counter(op.kind for op in document.ops)
    rows = [
        _KindRow(document.kinds[kind], count, document.cost.kinds[kind], document.assessment.kinds[kind])
        for kind, count in counts.items()
    ]
    rows.sort(key=lambda row: -row.executions * (row.cost.flops or 0))
    reasons = Counter(row.assessment.unknown for row in rows if row.assessment.unknown)
    notes = [f"no figures for {plural(count, 'kind')} of op: {why}" for why, count in reasons.most_common(_REASONS)]
    title = "PRUNING AND QUANTIZATION BY KIND OF OP"
    return [*first_rows(title, Table(_KINDS, rows), top or len(rows)), *([notes_table(notes)] if notes else [])]


def assessment_lines(assessment: TensorAssessment) -> list[tuple[str, str]]:
    """The assessment of one tensor as names and values; unknown values are a dash with the reason."""
    if assessment.unknown:
        dash = f"{units.UNKNOWN} ({assessment.unknown})"
        values = [("pruning potential", dash), ("quantization sensitivity", dash)]
    else:
        values = [
            ("pruning potential", _pruning(assessment)),
            ("quantization sensitivity", _sensitivity(assessment)),
            ("compressibility", f"{units.ratio(assessment.compressibility)} (entropy-coded bytes ÷ bytes)"),
        ]
    return [*values, ("recommendation", assessment.recommendation or units.UNKNOWN)]


def _pruning(assessment: TensorAssessment) -> str:
    structured = assessment.structured_potential
    rows = "" if structured is None else f", {percent(structured)} in all-zero rows and columns"
    return f"{percent(assessment.pruning_potential)}{rows}"


def _sensitivity(assessment: TensorAssessment) -> str:
    formats = (("int8", assessment.int8), ("int4", assessment.int4), ("float8_e4m3fn", assessment.fp8))
    return ", ".join([assessment.quantization_sensitivity, *(f"{name} {_decibels(one)}" for name, one in formats)])
