"""Every statistic of a tensor from its merged partials."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import ChunkPlan, Weight
from assay.checkpoint.statistics.distribution import known
from assay.checkpoint.statistics.layout import BITS, ERROR_FIELDS, PRUNE_SHARES, ROW_FIELDS, WIDE_FIELDS
from assay.checkpoint.statistics.partials import Partial, Tiles
from assay.document.weights import Norms, Pruned, Rounding, TensorStatistics

TARGET_DB = 30.0
"""The signal-to-noise ratio that `bits_needed` keeps unless another is asked for."""
_EXACT = 1e-12
"""An error of at most this share of the energy, 120 dB below it, is none."""

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
"""Row-wise fields over all tiles."""


def blank(weight: Weight, problem: str = "", note: str = "") -> TensorStatistics:
    """What is known of a tensor whose values were not looked at."""
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
    """One field of the first pass's records."""
    return tiles.records[:, WIDE_FIELDS.index(name)]


def error_sums(tiles: Tiles) -> dict[str, float]:
    """The last pass's records added up."""
    return dict(zip(ERROR_FIELDS, map(math.fsum, tiles.records.T.tolist()), strict=True))


def row_sums(tiles: Tiles) -> RowSums:
    """The first pass's row-wise fields added up; what left the range of a float is unknown."""
    columns = tiles.records[:, : len(ROW_FIELDS)].T.tolist()
    return dict(zip(ROW_FIELDS, map(_sum, columns), strict=True))


def content_of(tiles: Tiles) -> str:
    """One digest from those of the tiles."""
    return hashlib.blake2b(np.ascontiguousarray(tiles.digests).tobytes(), digest_size=16).hexdigest()


def row_figures(plan: ChunkPlan, partial: Partial, sums: RowSums) -> dict[str, Any]:
    """n:m retention and the spread of row and column norms."""
    energy = sums["energy"]
    if energy is None or any(sums[name] is None for name in _SUMMED):
        return {}
    figures: dict[str, Any] = {}
    if energy:
        figures["n_of_m"] = {
            name: min(1.0, (sums[field] or 0.0) / energy)
            for name, field in (("1:4", "kept_1_4"), ("2:4", "kept_2_4"), ("4:8", "kept_4_8"))
        }
    if plan.by_rows:
        figures["rows"] = _row_norms(plan, partial, energy, sums["norm_sum"] or 0.0, int(sums["dead_rows"] or 0))
        if partial.columns is not None:
            figures["columns"] = _column_norms(partial.columns)
    return figures


def roundings(
    plan: ChunkPlan, sums: RowSums, errors: Mapping[str, float], energy: float, target_db: float
) -> dict[str, Any]:
    """How well each format holds the values, and the fewest bits that keep the wanted ratio."""
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
    """The share of the energy that is left at each point of the pruning curve."""
    pairs = zip(PRUNE_SHARES, kept, strict=True)
    return tuple(Pruned(share, min(1.0, left / energy)) for share, left in pairs) if energy else ()


def rounding(name: str, scope: str, error: float, energy: float) -> Rounding:
    """One format's ratio of signal to noise."""
    ratio = _decibels(error, energy)
    return Rounding(name, scope, exact=True) if ratio == math.inf else Rounding(name, scope, ratio)


def _decibels(error: float, energy: float) -> float | None:
    """The ratio of signal to noise, infinite where the format is exact; None where nothing is known of it."""
    if error <= energy * _EXACT:
        return math.inf
    ratio = known(energy / error)
    return 10 * math.log10(ratio) if ratio else None


def _sum(values: list[float]) -> float | None:
    try:
        return known(math.fsum(values))
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
    away = norms - mean
    figures = (float(norms.min()), float(norms.max()), mean, math.sqrt(float((away * away).sum()) / norms.size))
    return Norms(norms.size, *figures, dead=norms.size - int(np.count_nonzero(energies)))
