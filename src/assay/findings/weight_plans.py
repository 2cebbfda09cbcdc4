"""Plans for each stored matrix: the narrowest format that keeps its values, and the share of weights it can lose."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from assay.document.weights import Rounding, TensorStatistics
from assay.findings.facts import ModelFacts
from assay.findings.stored import matrices

MIN_DB = 18.0
"""Signal-to-noise ratio in dB that a format must keep; int4 in groups of 128 just keeps it for normal weights."""
MIN_ENERGY = 0.95
"""The share of the sum of squares that pruning must keep."""
MIN_ELEMENTS = 4096
"""Smaller matrices stay as they are."""
GROUP = 128
_SCALE_BITS = 16
_FORMATS = {("int4", "channel"): 4, ("int4", "group128"): 4, ("int8", "channel"): 8, ("int8", "group128"): 8}
"""Bits per weight of the formats that are tried, narrowest first."""


class QuantizedTensor(Struct, frozen=True, omit_defaults=True):
    """The format that a plan chooses for one matrix."""

    name: str
    """The tensor's first name."""
    format: str
    """`int4` or `int8`, or the tensor's own dtype if it has to stay."""
    scope: str
    """The values that share a scale: `channel` (one row) or `group128`; empty if it has to stay."""
    sqnr_db: float | None
    """The signal-to-noise ratio it keeps; None if nothing is lost."""
    bytes: int
    """Its bytes now."""
    planned_bytes: int
    """Its bytes in that format, with scales."""

    @property
    def width(self) -> str:
        """`int4`, `int8` or `unchanged`."""
        return self.format if self.scope else "unchanged"


class PrunedTensor(Struct, frozen=True, omit_defaults=True):
    """What a plan prunes from one matrix."""

    name: str
    """The tensor's first name."""
    share: float
    """The share of its weights that are set to zero, smallest magnitudes first."""
    energy: float
    """The share of its sum of squares that is kept."""
    dead_rows: int
    """Rows that are all zero, which can be removed."""
    dead_columns: int
    """Columns that are all zero, which can be removed."""
    bytes: int
    """Its bytes now."""
    planned_bytes: int
    """Its bytes without these rows and columns, or with a bit mask and the remaining weights, if that is less."""


def quantization_plan(facts: ModelFacts, min_db: float = MIN_DB) -> list[QuantizedTensor]:
    """The narrowest format for each large matrix that keeps `min_db`."""
    return [_quantized(row, min_db) for row in matrices(facts) if row.count >= MIN_ELEMENTS and row.roundings]


def _quantized(row: TensorStatistics, min_db: float) -> QuantizedTensor:
    by_format = {} if row.nan or row.inf else {(each.format, each.scope): each for each in row.roundings}
    for (name, scope), bits in _FORMATS.items():
        rounding, size = by_format.get((name, scope)), _quantized_bytes(row, bits, scope)
        if rounding is not None and _keeps(rounding, min_db) and size < row.bytes:
            return QuantizedTensor(row.names[0], name, scope, rounding.sqnr_db, row.bytes, size)
    return QuantizedTensor(row.names[0], row.dtype, "", None, row.bytes, row.bytes)


def _keeps(rounding: Rounding, min_db: float) -> bool:
    return rounding.exact or (rounding.sqnr_db is not None and rounding.sqnr_db >= min_db)


def _quantized_bytes(row: TensorStatistics, bits: int, scope: str) -> int:
    columns = prod(row.shape[1:])
    scales = row.shape[0] * (1 if scope == "channel" else -(-columns // GROUP))
    return (row.count * bits + scales * _SCALE_BITS + 7) // 8


def pruning_plan(facts: ModelFacts, min_energy: float = MIN_ENERGY) -> list[PrunedTensor]:
    """The largest measured share of each large matrix that can be pruned while `min_energy` is kept."""
    return [_pruned(row, min_energy) for row in matrices(facts) if row.count >= MIN_ELEMENTS and row.pruning]


def _pruned(row: TensorStatistics, min_energy: float) -> PrunedTensor:
    allowed = [point for point in row.pruning if point.energy >= min_energy]
    point = max(allowed, key=lambda each: each.share, default=None)
    share, energy = (point.share, point.energy) if point is not None else (0.0, 1.0)
    rows, columns = dead_units(row)
    sparse = round((1 - share) * row.bytes) + (row.count + 7) // 8
    smaller = row.bytes - dead_unit_bytes(row)
    return PrunedTensor(row.names[0], share, energy, rows, columns, row.bytes, min(sparse, smaller, row.bytes))


def dead_units(row: TensorStatistics) -> tuple[int, int]:
    """The number of all-zero rows and columns, without an embedding's padding row; 0 if a value is not finite.

    The norms skip NaN and infinities, so a row that consists of them has norm 0 too.
    """
    if row.nan or row.inf:
        return 0, 0
    dead_rows = row.rows.dead if row.rows is not None else 0
    is_table = len(row.shape) == 2 and row.shape[0] > row.shape[1]
    return 0 if is_table and dead_rows == 1 else dead_rows, row.columns.dead if row.columns is not None else 0


def dead_unit_bytes(row: TensorStatistics) -> int:
    """The bytes of a matrix's all-zero rows and columns."""
    rows, columns = dead_units(row)
    across = row.columns.count if row.columns is not None else prod(row.shape[1:])
    kept = (row.shape[0] - rows) * (across - columns)
    return row.bytes - row.bytes * kept // (row.shape[0] * across)
