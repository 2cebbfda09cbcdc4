"""Weights for the page: statistics of every tensor, and histograms, quantiles, precision and pruning of most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from assay import units
from assay.document.provenance import Provenance
from assay.document.weights import QUANTILES, Rounding, TensorStatistics, WeightsReport
from assay.findings.tensor_assessments import assess_tensor
from assay.views.html.columns import LARGE, numbers, page_columns, round_number, words
from assay.views.html.convert import blocks_of
from assay.views.html.page import (
    AnyBlock,
    HeatBlock,
    NotesBlock,
    PageColumn,
    PageTable,
    PageView,
    SectionRef,
    TensorsBlock,
    Unit,
)
from assay.views.html.subject import Subject
from assay.views.tables import printable
from assay.views.text.params import ParamsOptions, between, params_report
from assay.views.text.params_lines import STATISTICS, recommendation, sensitivity, shown_name
from assay.views.text.params_more import decibels

SECTION, DETAILS = "tensors", "tensor-details"
_DETAILED, _FEW_DETAILED = 4000, 1200
"""Tensors with histograms, of many and of very many tensors; each takes about 150 bytes."""
_RARE = ("abs_max", "l2", "skewness", "near_zeros", "distinct", "entropy", "coded", "int4_db", "norm", "rank")
"""Columns that a large table leaves out."""
_BINS = 32
_LEVELS = 255
_HEAT = ("nan", "inf", "std", "mean", "min", "max", "kurtosis", "zeros", "entropy", "int8_db")
_NOTES = "Notes"
_NO_VALUES = "The values of the weights were not read. To read them: `assay check {0} --save FILE`"


class TensorDetails(Struct, frozen=True):
    """What is too large for the table; lists are parallel to `rows`, which are rows of the table."""

    rows: list[int]
    low: list[float]
    high: list[float]
    counts: list[list[int]]
    probabilities: list[float]
    quantiles: list[list[float | None]]
    formats: list[str]
    sqnr_db: list[list[float | str | None]]
    pruning: list[list[tuple[float, float]]]


def weights_view(subject: Subject) -> PageView:
    """The tensors, and which of them stand out."""
    weights = subject.document.weights
    if weights is None or not weights.tensors:
        return PageView("weights", "Weights", [], _NO_VALUES.format(subject.model))
    detailed = len(detailed_rows(weights, full=subject.full))
    blocks: list[AnyBlock] = [
        TensorsBlock(caption=_caption(weights), table=SectionRef(SECTION), details=DETAILS),
    ]
    known = len(detailed_rows(weights, full=True))
    if detailed < known:
        blocks.append(
            NotesBlock(
                lines=[
                    f"histograms of {detailed:,} of {known:,} tensors are in this file: outliers, and "
                    "the largest; `assay report --full` includes all"
                ]
            )
        )
    if weights.kernel:
        blocks.append(
            HeatBlock(
                title="Which tensors stand out",
                caption=_outlier_caption(weights),
                table=SectionRef(SECTION),
                statistics=list(_HEAT),
            )
        )
    rest = params_report(subject.document, ParamsOptions()).parts
    titles = [at for at, part in enumerate(rest) if isinstance(part, str)]
    return PageView(
        "weights", "Weights", [*blocks, *blocks_of(rest[titles[1] :] if len(titles) > 1 else [], "weights")]
    )


def _caption(weights: WeightsReport) -> str:
    bad = [tensor for tensor in weights.tensors if tensor.nan or tensor.inf]
    size = units.size(sum(tensor.bytes for tensor in weights.tensors))
    start = f"{len(weights.tensors):,} tensors, {size}"
    if not weights.kernel:
        return f"{start}; only headers were read."
    if not bad:
        return f"{start}; all values are finite."
    names = ", ".join(printable(shown_name(tensor)) for tensor in bad[:3])
    return f"{start}; {len(bad)} with NaN or infinite values: {names}{' and more' if len(bad) > 3 else ''}."


def _outlier_caption(weights: WeightsReport) -> str:
    bad = [printable(shown_name(tensor)) for tensor in weights.tensors if tensor.nan or tensor.inf]
    start = f"{', '.join(bad[:3])}{' and more' if len(bad) > 3 else ''}: values that are not finite. " if bad else ""
    if not weights.outliers:
        return f"{start}No tensor is far from the others of its family, where that has at least five."
    first = weights.outliers[0]
    name = printable(shown_name(weights.tensors[first.tensor]))
    values = f"{first.figure} {units.ratio(first.value)}, the median of its family {units.ratio(first.typical)}"
    more = f" ({len(weights.outliers)} outliers in all)" if len(weights.outliers) > 1 else ""
    return f"{start}{name} stands out most: {values}{more}."


def tensor_table(weights: WeightsReport, *, full: bool) -> PageTable:
    """One row per tensor."""
    tensors = weights.tensors
    assessments = [assess_tensor(one) for one in tensors]
    family = {index: one.name for one in weights.families for index in one.tensors}

    def column(key: str, title: str, of: Callable[[TensorStatistics], Any], unit: Unit, **more: Any) -> PageColumn:
        return numbers(key, title, map(of, tensors), unit, _how(weights, key), **more)

    columns = [
        words("name", "tensor", (printable(shown_name(one)) for one in tensors)),
        words("dtype", "dtype", (one.dtype for one in tensors)),
        *([words("role", "role", (one.role for one in tensors), hidden=True)] if weights.by_role else []),
        words("shape", "shape", (units.shape(one.shape) for one in tensors)),
        column("count", "count", lambda one: one.count, "count", hidden=True),
        column("bytes", "bytes", lambda one: one.bytes, "bytes", bar=True),
        *([column("nan", "NaN", lambda one: one.nan, "exact")] if any(one.nan for one in tensors) else []),
        *([column("inf", "infinite", lambda one: one.inf, "exact")] if any(one.inf for one in tensors) else []),
        column("min", "min", lambda one: one.min, "number"),
        column("max", "max", lambda one: one.max, "number"),
        column("mean", "mean", lambda one: one.mean, "number"),
        column("std", "std", lambda one: one.std, "number"),
        column("abs_max", "max |x|", _largest, "number", hidden=True),
        column("skewness", "skewness", lambda one: one.skewness, "number", hidden=True),
        column("kurtosis", "kurtosis", lambda one: one.kurtosis, "number", hidden=True),
        column("zeros", "zeros", lambda one: _share(one.zeros, one.numbers), "share"),
        column("near_zeros", "near zero", lambda one: _share(one.near_zeros, one.numbers), "share", hidden=True),
        column("l2", "L2 norm", lambda one: one.l2, "number", hidden=True),
        column("entropy", "entropy (64 bins), bits", lambda one: one.entropy_bits, "ratio", hidden=True),
        column("coded", "entropy-coded", lambda one: one.entropy_bytes, "bytes", hidden=True),
        column("distinct", "distinct", lambda one: one.distinct, "count", hidden=True),
        column("int8_db", "int8 dB", lambda one: _precision(one, "int8"), "ratio"),
        column("int4_db", "int4 dB", lambda one: _precision(one, "int4"), "ratio", hidden=True),
        column("bits", "bits needed", lambda one: one.bits_needed, "exact", hidden=True),
        column("dead_rows", "dead rows", lambda one: one.rows.dead if one.rows else None, "exact", hidden=True),
        column("norm", "spectral norm", lambda one: one.spectral and one.spectral.norm, "number", hidden=True),
        column("rank", "stable rank", lambda one: one.spectral and one.spectral.stable_rank, "ratio", hidden=True),
        words("effective", "effective rank", (_effective(one) for one in tensors), hidden=True),
        column("prunable", "pruning potential", lambda one: STATISTICS["prunable"]([one]), "share", hidden=True),
        words("sensitivity", "quantization sensitivity", (sensitivity([one]) for one in assessments), hidden=True),
        words("recommendation", "recommendation", (recommendation([one]) for one in assessments)),
        words("family", "family", (family.get(at) for at in range(len(tensors))), hidden=True),
        words("tied", "tied to", (", ".join(one.names[1:]) for one in tensors), hidden=True),
        words("note", "note", (one.problem or one.note for one in tensors)),
    ]  # fmt: skip
    return PageTable(rows=len(tensors), columns=page_columns(columns, len(tensors), _RARE, full=full))


def detailed_rows(weights: WeightsReport, *, full: bool) -> list[int]:
    """The tensors whose details are included: all, or outliers and those with NaN first, then the largest."""
    known = [at for at, tensor in enumerate(weights.tensors) if tensor.histogram is not None]
    most = _DETAILED if len(known) < LARGE else _FEW_DETAILED
    if full or len(known) <= most:
        return known
    first = {outlier.tensor for outlier in weights.outliers}
    first |= {at for at in known if weights.tensors[at].nan or weights.tensors[at].inf}
    ranked = sorted(known, key=lambda at: (at not in first, -weights.tensors[at].bytes))
    return sorted(ranked[:most])


def tensor_details(weights: WeightsReport, *, full: bool) -> TensorDetails:
    """The details of the tensors of `detailed_rows`."""
    rows = detailed_rows(weights, full=full)
    tensors = [weights.tensors[at] for at in rows]
    formats = list(dict.fromkeys(_format(one) for tensor in tensors for one in tensor.roundings))
    histograms = [tensor.histogram for tensor in tensors if tensor.histogram is not None]
    return TensorDetails(
        rows=rows,
        low=[_rounded(one.low) for one in histograms],
        high=[_rounded(one.high) for one in histograms],
        counts=[_relative(one.counts) for one in histograms],
        probabilities=list(QUANTILES),
        quantiles=[[round_number(value) for value in tensor.quantiles] for tensor in tensors],
        formats=formats,
        sqnr_db=[[_sqnr(tensor, name) for name in formats] for tensor in tensors],
        pruning=[[(_rounded(one.share), _rounded(one.energy)) for one in tensor.pruning] for tensor in tensors],
    )


def _relative(counts: Sequence[int]) -> list[int]:
    """The counts in at most `_BINS` bins, relative to the largest; a bin with any value is at least 1."""
    width = -(-len(counts) // _BINS)
    sums = [sum(counts[at : at + width]) for at in range(0, len(counts), width)]
    largest = max(sums, default=0) or 1
    return [0 if not value else max(1, round(_LEVELS * value / largest)) for value in sums]


def _sqnr(tensor: TensorStatistics, name: str) -> float | str | None:
    one = next((one for one in tensor.roundings if _format(one) == name), None)
    if one is None or one.level is None:
        return None
    return decibels(one.level) if one.sqnr_db is None else round(one.sqnr_db, 1)


def _format(one: Rounding) -> str:
    return one.format if one.scope == "none" else f"{one.format} per {one.scope}"


def _precision(tensor: TensorStatistics, name: str) -> float | None:
    """The best signal-to-noise ratio of a format; None if it is unknown or exact."""
    known = [one.sqnr_db for one in tensor.roundings if one.format == name and one.sqnr_db is not None]
    return max(known, default=None)


def _effective(tensor: TensorStatistics) -> str | None:
    bounds = STATISTICS["effective"]([tensor])
    return None if bounds is None else between(bounds)


def _largest(tensor: TensorStatistics) -> float | None:
    return None if tensor.min is None or tensor.max is None else max(abs(tensor.min), abs(tensor.max))


def _share(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole


def _rounded(value: float) -> float:
    return float(round_number(value) or 0.0)


def _how(weights: WeightsReport, key: str) -> Provenance | None:
    return weights.columns.get(f"tensors.{key}") or weights.columns.get("tensors")
