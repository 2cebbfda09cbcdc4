"""What each stored tensor allows: pruning, fewer bits and compression, with one recommendation.

The thresholds are those of the plans in `weight_plans`, so that the rules and the recommendations agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from msgspec.structs import replace

from assay import units
from assay.document import assessments
from assay.document.assessments import SENSITIVITIES, Assessment, TensorAssessment
from assay.document.dtypes import BITS
from assay.document.plans import PrunedTensor
from assay.document.provenance import Counted, Provenance
from assay.document.weights import TensorStatistics, WeightsReport
from assay.findings.stored import MIN_ELEMENTS as MIN_WEIGHTS
from assay.findings.stored import (
    MIN_ZERO_SHARE,
    dead_unit_bytes,
    dead_units,
    has_rows,
    is_constant,
    is_floating,
    is_matrix,
    is_semi_structured,
    may_be_weight,
    rounding_of,
    zero_share,
)
from assay.findings.weight_plans import (
    MIN_DB,
    MIN_ELEMENTS,
    MIN_ENERGY,
    MIN_PRUNED,
    has_outliers,
    is_dominated,
    keeps,
    largest_share,
    pruned,
    quantized,
)
from assay.messages import plural

NOT_READ = "the values were not read"
_OVERFLOW = "the sum of squares overflows"
_LOW, _MEDIUM, _HIGH = SENSITIVITIES
_ROWS = ("channel", "tensor")
"""A scale per row; a vector is one row."""
_SCOPES = {"tensor": "per tensor", "channel": "per row", "group128": "in groups of 128"}
"""Where scales are shared, as text."""

Recommendation = tuple[str, str]
"""An action and its text."""

COLUMNS: dict[str, Provenance] = {
    "tensors": Counted("all values of the tensor"),
    "tensors.pruning_potential": Counted(
        f"largest step of the magnitude-pruning curve that keeps {MIN_ENERGY:.0%} of the sum of squares, or the zeros"
    ),
    "tensors.structured_potential": Counted("weights in all-zero rows and columns"),
    "tensors.compressibility": Counted("bytes of an ideal order-0 entropy coder ÷ bytes"),
    "tensors.quantization_sensitivity": Counted(
        f"low: int4 keeps {MIN_DB:g} dB of signal to rounding noise, medium: int8 per row does, high: neither, or a "
        "single value or a few columns have most of the signal"
    ),
}
"""How the values of an assessment were obtained."""


def assess_weights(weights: WeightsReport) -> Assessment:
    """The assessment of the tensors of `weights`."""
    return Assessment([assess_tensor(row) for row in weights.tensors], columns=COLUMNS)


def assess_tensor(row: TensorStatistics) -> TensorAssessment:
    """The potential, sensitivity and recommendation of one tensor."""
    unknown = _unknown(row)
    action, text = _recommendation(row, unknown)
    result = TensorAssessment(row.names[0], action=action, recommendation=text, unknown=unknown)
    return result if unknown else _with_figures(result, row)


def _with_figures(assessment: TensorAssessment, row: TensorStatistics) -> TensorAssessment:
    """The assessment with the figures of a tensor whose values are known and finite."""
    return replace(
        assessment,
        pruning_potential=max(floor(pruned(row).share * row.count) / row.count, zero_share(row)),
        structured_potential=dead_unit_bytes(row) / row.bytes if row.rows is not None else None,
        compressibility=None if row.entropy_bytes is None else row.entropy_bytes / row.bytes,
        fp8=rounding_of(row, "float8_e4m3fn", "tensor"),
        int8=rounding_of(row, "int8", *_ROWS),
        int4=rounding_of(row, "int4", "group128", "tensor"),
        quantization_sensitivity=_sensitivity(row),
    )


def most_sensitive(levels: Sequence[str]) -> str:
    """The highest of the levels; empty if any is unknown or there are none."""
    return max(levels, key=SENSITIVITIES.index) if levels and all(levels) else ""


def _unknown(row: TensorStatistics) -> str:
    """Why the potential and the sensitivity are unknown; empty if they are known."""
    if row.problem:
        return row.problem
    if not row.count:
        return "no elements"
    if not is_floating(row):
        return _exempt(row)
    if row.zeros is None:
        return NOT_READ
    if row.nan or row.inf:
        return _invalid(row)
    return "" if row.roundings else _OVERFLOW


def _exempt(row: TensorStatistics) -> str:
    return f"{row.dtype} values are neither pruned nor rounded"


def _invalid(row: TensorStatistics) -> str:
    count = (row.nan or 0) + (row.inf or 0)
    return f"{plural(count, 'value')} {'is' if count == 1 else 'are'} NaN or infinite"


def _sensitivity(row: TensorStatistics) -> str:
    """The level by the narrowest integers that keep enough: int4 with any scales, int8 with a scale per row."""
    if is_dominated(row):
        return _HIGH
    if any(keeps(each) for each in row.roundings if each.format == "int4"):
        return _LOW
    int8 = rounding_of(row, "int8", *_ROWS)
    return _MEDIUM if int8 is not None and keeps(int8) else _HIGH


def _recommendation(row: TensorStatistics, unknown: str) -> Recommendation:
    if not row.count:
        return assessments.NONE, "none: no elements"
    if BITS.get(row.dtype, 0) <= 8 and row.dtype != "bool":  # the block formats of GGUF have no fixed bits
        return assessments.NONE, f"none: already {row.dtype}"
    if not is_floating(row):
        return assessments.KEEP, f"keep: {_exempt(row)}"
    if row.nan or row.inf:
        return assessments.CHECK, f"Check it: {_invalid(row)}"
    if may_be_weight(row) and has_rows(row) and row.count >= MIN_WEIGHTS and is_constant(row):
        return assessments.CHECK, f"Check it: all values are {row.min:g}"
    if not is_matrix(row):
        return assessments.KEEP, f"keep: {_why_no_matrix(row)}"
    return ("", "") if unknown else _of_matrix(row)


def _why_no_matrix(row: TensorStatistics) -> str:
    if not has_rows(row):
        return "not a matrix"
    if row.count < MIN_ELEMENTS:
        return f"fewer than {MIN_ELEMENTS:,} weights"
    if not may_be_weight(row):
        return f"its role is {row.role}, not parameter"
    if row.role:
        return "its name is that of a bias, norm, position or token"
    return "its name is not that of a layer's weight"


def _of_matrix(row: TensorStatistics) -> Recommendation:
    """What to do about a weight matrix: first what costs nothing, then what saves most bytes."""
    if any(dead_units(row)):
        nouns = ("all-zero row", "all-zero column")
        dead = [plural(count, noun) for count, noun in zip(dead_units(row), nouns, strict=True) if count]
        return assessments.REMOVE, f"Remove {' and '.join(dead)}"
    if row.count < MIN_ELEMENTS:
        return assessments.KEEP, f"keep: fewer than {MIN_ELEMENTS:,} weights"
    if is_semi_structured(row):
        return assessments.CONVERT, "Convert it to 2:4 sparse"
    if is_dominated(row):
        return _check_outliers(row, pruned(row))
    return _smallest(row)


def _smallest(row: TensorStatistics) -> Recommendation:
    """The change that saves most bytes: fewer bits, or fewer weights."""
    narrow, thin = quantized(row), pruned(row)
    choices: list[tuple[int, Recommendation]] = []
    if narrow.scope:
        text = f"Quantize to {narrow.format} {_SCOPES[narrow.scope]}"
        choices.append((narrow.planned_bytes, (assessments.QUANTIZE, text)))
    if thin.share_zero >= max(MIN_ZERO_SHARE, thin.share):
        text = f"Store it sparse: {units.share(thin.share_zero, 1)} of its weights are zero"
        choices.append((thin.planned_bytes, (assessments.STORE, text)))
    elif thin.share >= MIN_PRUNED and thin.share > thin.share_zero:
        choices.append((thin.planned_bytes, _thinner(row, thin)))
    if choices:
        return min(choices, key=lambda each: each[0])[1]
    if _sensitivity(row) == _HIGH:
        return assessments.KEEP, f"keep: int8 keeps less than {MIN_DB:g} dB"
    return assessments.KEEP, "keep: scales would take what narrower weights save"


def _thinner(row: TensorStatistics, thin: PrunedTensor) -> Recommendation:
    """To prune a matrix, unless that would leave little but its outliers."""
    if not has_outliers(row):
        return assessments.PRUNE, f"Prune {units.share(thin.share, 1)} of its weights"
    return _check_outliers(row, thin)


def _check_outliers(row: TensorStatistics, thin: PrunedTensor) -> Recommendation:
    """To look at the values that have most of the energy: how few they are, or what the largest has alone."""
    if thin.share < MIN_PRUNED or largest_share(row) > 1 - MIN_ENERGY:
        share = units.share(largest_share(row), 1)
        return assessments.CHECK, f"Check its outliers: its largest value has {share} of the sum of squares"
    few, most = units.share(1 - thin.share, 1), units.floored_percent(thin.energy)
    return assessments.CHECK, f"Check its outliers: {few} of its weights have {most} of the sum of squares"
