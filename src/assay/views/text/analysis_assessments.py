"""Pruning potential, quantization sensitivity and recommendations in an analysis: by kind of op, op and tensor."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from assay import units
from assay.document.assessments import Assessment, OpAssessment, TensorAssessment
from assay.document.cost import Cost
from assay.document.document import Document
from assay.document.rows import Op
from assay.document.weights import Rounding
from assay.findings.naming import fold_names, joined_names, module_names
from assay.messages import plural
from assay.views.tables import Column, Table, percent
from assay.views.text.amounts import part_of
from assay.views.text.facts import notes_table
from assay.views.text.report import Parts, first_rows

Row = TypeVar("Row")
_REASONS = 3
"""Reasons without figures that are listed."""


class _KindsRow(NamedTuple):
    """The kinds of op of one name and place that have the same assessment, with the cost of all their ops."""

    name: str
    where: str
    category: str
    assessment: OpAssessment
    executions: int
    bytes: int
    flops: int | None


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


_KINDS: tuple[Column[_KindsRow], ...] = (
    Column("op", lambda row: units.op(row.name), shrinks=True),
    Column("where", lambda row: row.where, shrinks=True),
    Column("type", lambda row: row.category, drops=3),
    Column("count", lambda row: row.executions, "right", units.exact, drops=1),
    Column("bytes", lambda row: row.bytes, "right", units.size, drops=4),
    Column("FLOPs/byte", lambda row: part_of(row.flops, row.bytes), "right", units.ratio, drops=4),
    Column("roofline", lambda row: row.assessment.bound or None, drops=4),
    *assessment_columns(lambda row: row.assessment),
)


def assessment_section(document: Document, top: int | None = None) -> Parts:
    """What the weights of each kind of op allow, most FLOPs first."""
    if document.assessment is None or document.cost is None or not document.ops:
        return []
    rows = sorted(_kinds_rows(document, document.cost, document.assessment), key=lambda row: -(row.flops or 0))
    kinds = dict.fromkeys(op.kind for op in document.ops)
    reasons = Counter(why for kind in kinds if (why := document.assessment.kinds[kind].unknown))
    notes = [f"no figures for {plural(count, 'kind')} of op: {why}" for why, count in reasons.most_common(_REASONS)]
    title = "PRUNING AND QUANTIZATION BY KIND OF OP"
    return [*first_rows(title, Table(_KINDS, rows), top or len(rows)), *([notes_table(notes)] if notes else [])]


def _kinds_rows(document: Document, cost: Cost, assessment: Assessment) -> Iterator[_KindsRow]:
    """One row per name, place and assessment: kinds that differ only in shapes or numbers share it."""
    ops: dict[int, list[Op]] = defaultdict(list)
    for op in document.ops:
        ops[op.kind].append(op)
    groups: dict[tuple[str, str, OpAssessment], list[int]] = defaultdict(list)
    for kind, same in ops.items():
        assessed = assessment.kinds[kind]
        groups[document.kinds[kind].name, _where(document, same, assessed), assessed].append(kind)
    for (name, where, assessed), kinds in groups.items():
        costs = [(len(ops[kind]), cost.kinds[kind]) for kind in kinds]
        flops = [None if one.flops is None else count * one.flops for count, one in costs]
        yield _KindsRow(
            name,
            where,
            costs[0][1].category,
            assessed,
            executions=sum(count for count, _ in costs),
            bytes=sum(count * one.bytes for count, one in costs),
            flops=None if None in flops else sum(each for each in flops if each is not None),
        )


def _where(document: Document, ops: Sequence[Op], assessed: OpAssessment) -> str:
    """The layers of the matrices that the ops read; without any, the modules that they are in."""
    modules = list(dict.fromkeys(map(document.module_of, ops)))
    read = [document.tensors[at] for at in assessed.tensors]
    matrices = [tensor.names for tensor in read if len(tensor.type.shape) > 1]
    if not matrices:
        return module_names(document, modules, 1)
    own = tuple(document.modules[at].path for at in modules)  # of a tied matrix, the name that belongs to the op
    names = [next((name for name in each if name.startswith(own)), each[0]) for each in matrices]
    return joined_names(fold_names(name.removesuffix(".weight") for name in names), 1)


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
