"""The complete analysis as one text: the summary, all parameters, all ops, the profile and all findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import NamedTuple

from assay import units
from assay.analysis.achieved import Achieved
from assay.analysis.devices import Device
from assay.document import tree
from assay.document.assessments import OpAssessment
from assay.document.cost import KindCost
from assay.document.document import Document
from assay.document.profile import KindEnergy, Profile
from assay.document.rows import OpKind
from assay.document.weights import QUANTILES, TensorStatistics
from assay.findings.analyzed import Analysis
from assay.views.layout import DEFAULT, Style
from assay.views.partial import marked_title
from assay.views.tables import Column, Table, printable
from assay.views.text import analysis as sections
from assay.views.text.analysis import CommonSections
from assay.views.text.analysis_assessments import assessment_columns, assessment_lines, assessment_section
from assay.views.text.analysis_weights import parameter_section
from assay.views.text.facts import facts_table, notes_table
from assay.views.text.figures import bottleneck
from assay.views.text.params_more import decibels
from assay.views.text.report import Parts, Report, as_text, section


class _OpRow(NamedTuple):
    """One executed op with its own time; its energy and bottleneck are those of its kind."""

    number: int
    module: str
    kind: OpKind
    cost: KindCost
    seconds: float | None
    timed: Achieved | None
    energy: KindEnergy | None
    assessment: OpAssessment | None


_OPS: tuple[Column[_OpRow], ...] = (
    Column("number", lambda row: row.number, "right", units.exact),
    Column("module", lambda row: row.module),
    Column("op", lambda row: row.kind.name),
    Column("inputs", lambda row: units.shapes(one.type.shape for one in row.kind.inputs)),
    Column("outputs", lambda row: units.shapes(one.type.shape for one in row.kind.outputs)),
    Column("type", lambda row: row.cost.category),
    Column("FLOPs", lambda row: row.cost.flops, "right", units.count),
    Column("bytes", lambda row: row.cost.bytes, "right", units.size),
    Column("FLOPs/byte", lambda row: row.cost.intensity, "right", units.ratio),
    Column("time", lambda row: row.seconds, "right", units.seconds),
    Column("energy", lambda row: row.energy and row.energy.each.value, "right", units.joules),
    Column("bottleneck", lambda row: row.timed and bottleneck(row.timed.bound)),
    *assessment_columns(lambda row: row.assessment),
)


_LINES = 20
"""Rows per table, unless everything is listed."""
_WIDTH = 120
_SHORTENED = "Tables are shortened: analysis.assay.json has every row, and `assay analyze --full` lists them here."
_CODE = [Column(title, itemgetter(index)) for index, title in enumerate(("function", "op", "arguments"))]


def full_report(
    analysis: Analysis,
    common: CommonSections,
    rows: Sequence[Achieved] = (),
    device: Device | None = None,
    *,
    full: bool = False,
    source: str = "",
) -> str:
    """The analysis as text for a file: the answer, the findings, the bottlenecks, then the tables.

    Args:
        analysis: What was determined.
        common: The sections shared with the screen.
        rows: The timed kinds of op.
        device: The limits they are compared with.
        full: Whether to list every module, op and tensor, with appendices at the end.
        source: The model as named on the command line.
    """
    document = analysis.document
    top = len(document.modules) + len(document.kinds) if full else _LINES
    answer, *brief = sections.answer_section(analysis, common, rows, device, source)
    parts: Parts = [
        marked_title(str(answer), document),
        *brief,
        *sections.recommendation_section(document, analysis.checked),
        "SUMMARY",
        common.summary,
        *sections.performance_section(document, rows, top, device, full=full),
        *sections.computation_section(document, top),
        *assessment_section(document, top),
        *common.memory,
        *sections.energy_section(document, top),
        *sections.system_section(document, full=full),
        *common.architecture,
        *sections.code_section(analysis.code, None if full else _LINES),
        *parameter_section(document, None if full else _LINES),
        *section(
            "Assumptions of the recorded pass", facts_table(("assumed", one) for one in document.run.assumptions)
        ),
        *common.missing,
    ]
    if not full:
        return _text([*parts, notes_table([_SHORTENED])], Style(_WIDTH))
    appendix: Parts = [
        *section("Skipped rules", facts_table((one.code, one.why) for one in analysis.checked.skipped)),
        *_op_section(document, rows),
        *section("All ops in the code", Table(_CODE, analysis.code)),
    ]
    texts = (_text(parts), _text(appendix) if appendix else "", "".join(_tensor_blocks(document)))
    return "\n".join(text for text in texts if text)


def _text(parts: Parts, style: Style = DEFAULT) -> str:
    return as_text(Report(parts, facts_table([])), style)


def _tensor_blocks(document: Document) -> Iterator[str]:
    """All statistics of all tensors as text lines; building a table per tensor would be too slow."""
    tensors = document.weights.tensors if document.weights is not None else []
    assessed = document.assessment.tensors if document.assessment is not None else []
    if tensors:
        yield "ALL PARAMETERS\n"
    for tensor, assessment in zip_longest(tensors, assessed):
        yield f"{printable(', '.join(tensor.names)) or '(unnamed)'}\n"
        for name, value in [*_statistics(tensor), *(assessment_lines(assessment) if assessment else [])]:
            yield f"  {name:<26}{printable(value)}\n"
        yield "\n"


def _statistics(tensor: TensorStatistics) -> list[tuple[str, str]]:
    """The statistics of one tensor as names and values; unknown values are a dash."""
    facts = [
        ("shape, dtype", f"{units.shape(tensor.shape)} {tensor.dtype}"),
        ("elements, bytes", f"{units.exact(tensor.count)}, {units.size(tensor.bytes)}"),
    ]
    if tensor.problem:
        return [*facts, ("not analysed", tensor.problem)]
    facts += [
        ("min, max", _several(tensor.min, tensor.max)),
        ("mean, std", _several(tensor.mean, tensor.std)),
        ("skewness, kurtosis", _several(tensor.skewness, tensor.kurtosis)),
        ("L1, L2", _several(tensor.l1, tensor.l2)),
        ("zeros, near zeros", f"{units.exact(tensor.zeros)}, {units.exact(tensor.near_zeros)}"),
        ("NaN, infinite", f"{units.exact(tensor.nan)}, {units.exact(tensor.inf)}"),
        ("entropy of the histogram", f"{units.ratio(tensor.entropy_bits)} bits per weight"),
        ("entropy-coded", units.size(tensor.entropy_bytes)),
        ("quantiles", _quantiles(tensor)),
        ("rounding", _roundings(tensor)),
        ("alignment in the file", units.size(tensor.alignment)),
    ]
    if tensor.n_of_m:
        kept = ", ".join(f"{name} {units.share(share, 1)}" for name, share in tensor.n_of_m.items())
        facts.append(("energy kept by n:m", kept))
    spectral = tensor.spectral
    if spectral is not None or tensor.rows is not None:
        text = units.UNKNOWN if spectral is None else f"{spectral.norm:.6g} ± {spectral.norm_error:.2g}"
        facts.append(("spectral norm", text))
    return facts


def _several(*values: float | None) -> str:
    return ", ".join(units.UNKNOWN if value is None else f"{value:.6g}" for value in values)


def _quantiles(tensor: TensorStatistics) -> str:
    if not tensor.quantiles:
        return units.UNKNOWN
    pairs = zip(QUANTILES, tensor.quantiles, strict=True)
    return ", ".join(f"{100 * share:g} %: {value:.4g}" for share, value in pairs)


def _roundings(tensor: TensorStatistics) -> str:
    texts = [
        f"{one.format}{'' if one.scope == 'none' else f' per {one.scope}'} "
        + (decibels(one.level) if one.sqnr_db is None else f"{one.sqnr_db:.1f} dB")
        for one in tensor.roundings
    ]
    return ", ".join(texts) or units.UNKNOWN


def _op_section(document: Document, rows: Sequence[Achieved]) -> Parts:
    """All ops in order of execution."""
    if not document.ops or document.cost is None:
        return []
    timed = {row.kind: row for row in rows}
    profile = document.profile or Profile()
    energies = profile.energy.kinds if profile.energy is not None else []
    assessed = document.assessment.ops if document.assessment is not None else []
    ops = [
        _OpRow(
            number=number,
            module=tree.path_text(document.modules[document.module_of(op)].path),
            kind=document.kinds[op.kind],
            cost=document.cost.kinds[op.kind],
            seconds=profile.ops[number] if number < len(profile.ops) else None,
            timed=timed.get(op.kind),
            energy=energies[op.kind] if op.kind < len(energies) else None,
            assessment=assessed[number] if assessed else None,
        )
        for number, op in enumerate(document.ops)
    ]
    return ["ALL OPS", Table(_OPS, ops)]
