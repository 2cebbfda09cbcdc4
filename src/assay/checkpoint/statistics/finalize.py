"""Derives statistics of a tensor from its merged partials: norms, rounding errors, pruning."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import ChunkPlan, Weight
from assay.checkpoint.statistics.distribution import finite_or_none
from assay.checkpoint.statistics.layout import BITS, ERROR_FIELDS, PRUNE_SHARES, ROW_FIELDS, WIDE_FIELDS
from assay.checkpoint.statistics.partials import Partial, Tiles
from assay.document.weights import Norms, Pruned, Rounding, TensorStatistics

TARGET_DB = 30.0
"""The default signal-to-noise ratio that `bits_needed` must keep."""
_EXACT = 1e-12
"""An error of at most this share of the energy (-120 dB) counts as zero."""

_ROW_SCHEMES = (("int8", "channel", "int8_row"), ("int4", "channel", "int4_row"))
_GROUP_SCHEMES = (("int8", "group128", "int8_group"), ("int4", "group128", "int4_group"))
_WHOLE_SCHEMES = (
    ("bfloat16", "none"),
    ("float8_e4m3fn", "tensor"),
    ("float8_e5m2", "tensor"),
    ("int8", "tensor"),
    ("int4", "tensor"),
)
_SUMMED = tuple(name for name in ROW_FIELDS if not name.startswith("norm_m"))

RowSums = dict[str, float | None]
"""Sums of the row-wise fields over all tiles; None for a sum that overflowed."""


def blank(weight: Weight, problem: str = "", note: str = "") -> TensorStatistics:
    """The statistics of a tensor whose values were not read: only its name, dtype, shape and size."""
    return TensorStatistics(
        names=weight.names,
        dtype=weight.dtype,
        shape=weight.shape,
        bytes=weight.length,
        count=math.prod(weight.shape),
        alignment=weight.alignment,
        problem=problem,
        note=note,
    )


def column(tiles: Tiles, name: str) -> NDArray[np.float64]:
    """One field of the records of the first pass, for all tiles."""
    return tiles.records[:, WIDE_FIELDS.index(name)]


def error_sums(tiles: Tiles) -> dict[str, float]:
    """The sums over all tiles of the fields of the last pass."""
    return dict(zip(ERROR_FIELDS, map(math.fsum, tiles.records.T.tolist()), strict=True))


def row_sums(tiles: Tiles) -> RowSums:
    """The sums over all tiles of the row-wise fields of the first pass."""
    columns = tiles.records[:, : len(ROW_FIELDS)].T.tolist()
    return dict(zip(ROW_FIELDS, map(_sum, columns), strict=True))


def content_of(tiles: Tiles) -> str:
    """A digest of the whole tensor, from those of its tiles."""
    return hashlib.blake2b(np.ascontiguousarray(tiles.digests).tobytes(), digest_size=16).hexdigest()


def row_statistics(plan: ChunkPlan, partial: Partial, sums: RowSums) -> dict[str, Any]:
    """The energy kept by n:m sparsity, and the norms of rows and columns."""
    energy = sums["energy"]
    if energy is None or any(sums[name] is None for name in _SUMMED):
        return {}
    fields: dict[str, Any] = {}
    if energy:
        fields["n_of_m"] = {
            name: min(1.0, (sums[field] or 0.0) / energy)
            for name, field in (("1:4", "kept_1_4"), ("2:4", "kept_2_4"), ("4:8", "kept_4_8"))
        }
    if plan.by_rows:
        fields["rows"] = _row_norms(plan, partial, energy, sums["norm_sum"] or 0.0, int(sums["dead_rows"] or 0))
        if partial.columns is not None:
            fields["columns"] = _column_norms(partial.columns)
    return fields


def roundings(
    plan: ChunkPlan, sums: RowSums, errors: Mapping[str, float], energy: float, target_db: float
) -> dict[str, Any]:
    """The signal-to-noise ratio of each format, and the fewest bits that keep `target_db`."""
    rows = [rounding(name, scope, errors[name], energy) for name, scope in _WHOLE_SCHEMES]
    row_energy = sums["energy"] or 0.0
    for name, scope, field in (_ROW_SCHEMES if plan.by_rows else ()) + _GROUP_SCHEMES:
        error = sums[field]
        if error is not None:
            rows.append(rounding(name, scope, error, row_energy))
    ratios = ((bits, _decibels(errors[f"int{bits}"], energy)) for bits in BITS)
    enough = [bits for bits, ratio in ratios if ratio is not None and ratio >= target_db]
    return {"roundings": tuple(rows), "bits_needed": min(enough, default=None), "bits_for_db": target_db}


def pruning(kept: Iterable[float], energy: float) -> tuple[Pruned, ...]:
    """The share of the energy that remains at each point of the pruning curve."""
    pairs = zip(PRUNE_SHARES, kept, strict=True)
    return tuple(Pruned(share, min(1.0, remaining / energy)) for share, remaining in pairs) if energy else ()


def rounding(name: str, scope: str, error: float, energy: float) -> Rounding:
    """The signal-to-noise ratio of one format."""
    ratio = _decibels(error, energy)
    return Rounding(name, scope, exact=True) if ratio == math.inf else Rounding(name, scope, ratio)


def _decibels(error: float, energy: float) -> float | None:
    """The signal-to-noise ratio: infinite if the format is exact, None if it overflowed."""
    if error <= energy * _EXACT:
        return math.inf
    ratio = finite_or_none(energy / error)
    return 10 * math.log10(ratio) if ratio else None


def _sum(values: list[float]) -> float | None:
    try:
        return finite_or_none(math.fsum(values))
    except OverflowError:
        return None


def _row_norms(plan: ChunkPlan, partial: Partial, energy: float, total: float, dead: int) -> Norms:
    low, high = float(column(partial.tiles, "norm_min").min()), float(column(partial.tiles, "norm_max").max())
    mean = total / plan.rows
    return Norms(plan.rows, low, high, mean, math.sqrt(max(0.0, energy / plan.rows - mean * mean)), dead)


def _column_norms(columns: NDArray[np.float64]) -> Norms:
    energies = columns[0] + columns[1]
    norms = np.sqrt(energies)
    mean = float(norms.sum()) / norms.size
    deviations = norms - mean
    std = math.sqrt(float((deviations * deviations).sum()) / norms.size)
    dead = norms.size - int(np.count_nonzero(energies))
    return Norms(norms.size, float(norms.min()), float(norms.max()), mean, std, dead=dead)
