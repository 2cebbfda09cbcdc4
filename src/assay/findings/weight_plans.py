"""Plans for each stored matrix: the narrowest format that keeps its values, and the share of weights it can lose."""

from __future__ import annotations

from assay.document.plans import PrunedTensor, QuantizedTensor
from assay.document.weights import Norms, Rounding, TensorStatistics
from assay.findings.facts import ModelFacts
from assay.findings.stored import is_constant, is_convolution, matrices, outlier_row_gain, row_count, zero_share

MIN_DB = 18.0
"""Signal-to-noise ratio in dB that a format must keep; int4 in groups of 128 just keeps it for normal weights."""
MIN_ENERGY = 0.95
"""The share of the sum of squares that pruning must keep."""
MIN_PRUNED = 0.5
"""A normal distribution allows about a quarter of the weights to be pruned, which no sparse format rewards."""
MIN_ELEMENTS = 4096
"""Smaller matrices stay as they are."""
GROUP = 128
_SCALE_BITS = 16
_FORMATS = {("int4", "channel"): 4, ("int4", "group128"): 4, ("int8", "channel"): 8, ("int8", "group128"): 8}
"""Bits per weight of the formats that are tried, narrowest first."""
_OF_CONVOLUTIONS = [("int8", "channel")]
"""Other formats have kernels for linear layers only."""


def quantization_plan(facts: ModelFacts, min_db: float = MIN_DB) -> list[QuantizedTensor]:
    """The narrowest format for each large matrix that keeps `min_db`; without those whose values are all equal."""
    large = (row for row in matrices(facts) if row.count >= MIN_ELEMENTS and row.roundings)
    return [quantized(row, min_db) for row in large if not is_constant(row)]


def quantized(row: TensorStatistics, min_db: float = MIN_DB) -> QuantizedTensor:
    """The narrowest format for a matrix that keeps `min_db` and takes fewer bytes; else its own dtype."""
    unclear = row.nan or row.inf or is_dominated(row)
    by_format = {} if unclear else {(each.format, each.scope): each for each in row.roundings}
    for name, scope in _OF_CONVOLUTIONS if is_convolution(row) else _FORMATS:
        rounding, size = by_format.get((name, scope)), _quantized_bytes(row, _FORMATS[name, scope], scope)
        if rounding is not None and keeps(rounding, min_db) and size < row.bytes:
            return QuantizedTensor(row.names[0], name, scope, rounding.sqnr_db, row.bytes, size)
    return QuantizedTensor(row.names[0], row.dtype, "", None, row.bytes, row.bytes)


def keeps(rounding: Rounding, min_db: float = MIN_DB) -> bool:
    """Whether a format keeps `min_db`."""
    return rounding.exact or (rounding.sqnr_db is not None and rounding.sqnr_db >= min_db)


def _quantized_bytes(row: TensorStatistics, bits: int, scope: str) -> int:
    rows = row_count(row)
    scales = rows * (1 if scope == "channel" else -(-row.count // rows // GROUP))
    return (row.count * bits + scales * _SCALE_BITS + 7) // 8


def pruning_plan(facts: ModelFacts, min_energy: float = MIN_ENERGY) -> list[PrunedTensor]:
    """The largest measured share of each large matrix that can be pruned while `min_energy` is kept.

    Without those whose outliers have most of the energy: little else would be left of them.
    """
    large = (row for row in matrices(facts) if row.count >= MIN_ELEMENTS and row.pruning)
    return [pruned(row, min_energy) for row in large if not has_outliers(row)]


def has_outliers(row: TensorStatistics) -> bool:
    """Whether a value, rows or columns are so large that pruning by magnitude would leave little of the others."""
    return is_dominated(row) or _is_uneven(row.rows) or outlier_row_gain(row) is not None


def is_dominated(row: TensorStatistics) -> bool:
    """Whether a value or a few columns have so much of the energy that the noise in the others does not show.

    Rows are no problem: each has its own scale.
    """
    return row.count >= MIN_ELEMENTS and (_is_uneven(row.columns) or largest_share(row) > 1 - MIN_ENERGY)


def _is_uneven(norms: Norms | None) -> bool:
    """Whether the norms that are not zero deviate from their mean by more than the mean."""
    if norms is None or not norms.mean:
        return False
    alive = 1 - norms.dead / norms.count
    return alive * ((norms.std / norms.mean) ** 2 + 1) > 2


def largest_share(row: TensorStatistics) -> float:
    """The share of the sum of squares that the largest value has alone."""
    largest = max(abs(row.min or 0.0), abs(row.max or 0.0))
    return (largest / row.l2) ** 2 if row.l2 else 0.0


def pruned(row: TensorStatistics, min_energy: float = MIN_ENERGY) -> PrunedTensor:
    """The largest measured share of a tensor that can be pruned while `min_energy` is kept."""
    allowed = [point for point in row.pruning if point.energy >= min_energy]
    point = max(allowed, key=lambda each: each.share, default=None)
    share, energy = (point.share, point.energy) if point is not None else (0.0, 1.0)
    share_zero = zero_share(row)
    now, then = _sparse_bytes(row, share_zero), _sparse_bytes(row, max(share, share_zero))
    return PrunedTensor(row.names[0], row.count, share, share_zero, energy, now, then)


def _sparse_bytes(row: TensorStatistics, share: float) -> int:
    """The bytes with this share of zeros: dense, or a bit mask and the other weights, if that is less."""
    return min(row.bytes, round((1 - share) * row.bytes) + (row.count + 7) // 8)
