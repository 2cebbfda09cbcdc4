"""Derives statistics of a tensor from its merged partials: norms, rounding errors, pruning."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import ChunkPlan, Weight
from assay.checkpoint.statistics.distribution import exact_sum, finite_or_none
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import (
    BITS,
    COLUMN_FIELDS,
    ERROR_FIELDS,
    PRUNE_SHARES,
    ROW_FIELDS,
    WIDE_FIELDS,
)
from assay.checkpoint.statistics.partials import Partial, Tiles
from assay.document.weights import Norms, Pruned, Rounding, TensorStatistics

TARGET_DB = 30.0
"""The default signal-to-noise ratio that `bits_needed` must keep."""
_EXACT = 1e-12
"""An error of at most this share of the energy (-120 dB) counts as zero."""

_ROW_SCHEMES = (("int8", "channel", "int8_row"), ("int4", "channel", "int4_row"))
_GROUP_SCHEMES = (("int8", "group128", "int8_group"), ("int4", "group128", "int4_group"))
_WHOLE_SCHEMES = ("float8_e4m3fn", "float8_e5m2", "int8", "int4")
_NO_COLUMNS = np.zeros((2, 0))
_ROW_SUMS = (*ROW_FIELDS, *(f"column_{name}" for name in COLUMN_FIELDS))

RowSums = dict[str, float]
"""The sums over all tiles of the row-wise fields, and the figures of the columns; of float64 they may overflow."""


def blank(weight: Weight, problem: str = "", note: str = "") -> TensorStatistics:
    """The statistics of a tensor whose values were not read: only its name, dtype, shape and size."""
    return _row(weight, {"problem": problem, "note": note})


def described(plan: ChunkPlan, partial: Partial, fields: Mapping[str, Any]) -> TensorStatistics:
    """The statistics of a tensor with these fields, its note and the digest of its content."""
    return _row(plan.weight, {**fields, "note": plan.note, "content": _content_of(plan, partial.tiles)})


def _row(weight: Weight, fields: Mapping[str, Any]) -> TensorStatistics:
    return TensorStatistics(
        names=weight.names,
        dtype=weight.dtype,
        shape=weight.shape,
        bytes=weight.length,
        count=math.prod(weight.shape),
        alignment=weight.alignment,
        **fields,
    )


def column(tiles: Tiles, name: str) -> NDArray[np.float64]:
    """One field of the records of the first pass, for all tiles."""
    return tiles.records[:, WIDE_FIELDS.index(name)]


def error_sums(tiles: Tiles) -> dict[str, float]:
    """The sums over all tiles of the fields of the last pass."""
    return dict(zip(ERROR_FIELDS, map(exact_sum, tiles.records.T.tolist()), strict=True))


def row_sums(plan: ChunkPlan, partial: Partial) -> RowSums:
    """The sums over all tiles of the row-wise fields of the first pass, and the figures of the columns."""
    # The rows of a view that repeats stored values are longer than those that were read.
    if plan.repeats > 1 or not partial.tiles.records.size:
        return {}
    columns = _NO_COLUMNS if partial.columns is None else partial.columns
    return dict(zip(_ROW_SUMS, kernel.row_sums(partial.tiles.records, columns)[0].tolist(), strict=True))


def _content_of(plan: ChunkPlan, tiles: Tiles) -> str:
    """A digest of the whole tensor, from those of its tiles."""
    digest = hashlib.blake2b(tiles.digests.tobytes(), digest_size=16)
    if plan.overlapping:
        digest.update(repr((plan.weight.shape, plan.weight.strides)).encode())
    return digest.hexdigest()


def row_statistics(plan: ChunkPlan, sums: RowSums) -> dict[str, Any]:
    """The energy kept by n:m sparsity, and the norms of rows and columns."""
    if not sums:
        return {}
    energy = sums["energy"]
    fields: dict[str, Any] = {}
    if energy and math.isfinite(energy):
        fields["n_of_m"] = {
            name: min(1.0, sums[field] / energy)
            for name, field in (("1:4", "kept_1_4"), ("2:4", "kept_2_4"), ("4:8", "kept_4_8"))
        }
    if plan.by_rows and plan.dtype.parts == 1:
        low, high, mean, std, dead = (sums[f"column_{name}"] for name in COLUMN_FIELDS)
        fields["columns"] = Norms(plan.cols, low, high, mean, std, int(dead))
    if plan.by_rows:
        mean = sums["norm_sum"] / plan.rows
        std = math.sqrt(max(0.0, energy / plan.rows - mean * mean))
        fields["rows"] = Norms(plan.rows, sums["norm_min"], sums["norm_max"], mean, std, int(sums["dead_rows"]))
    return fields


def roundings(
    plan: ChunkPlan, sums: RowSums, errors: Mapping[str, float], energy: float, target_db: float
) -> dict[str, Any]:
    """The signal-to-noise ratio of each format, and the fewest bits that keep `target_db`; nothing on overflow."""
    overflows = int(errors["bfloat16_overflows"])
    own = Rounding("bfloat16", "none", overflows=overflows) if overflows else None
    if not math.isfinite(energy):
        return {"roundings": (own,)} if own is not None else {}
    rows = [own or rounding("bfloat16", "none", errors["bfloat16"], energy)]
    rows += [rounding(name, "tensor", errors[name], energy) for name in _WHOLE_SCHEMES]
    if sums and math.isfinite(sums["energy"]):
        schemes = (_ROW_SCHEMES if plan.by_rows else ()) + _GROUP_SCHEMES
        rows += [rounding(name, scope, sums[field], sums["energy"]) for name, scope, field in schemes]
    ratios = ((bits, _decibels(errors[f"int{bits}"], energy)) for bits in BITS)
    enough = next((bits for bits, ratio in ratios if ratio is not None and ratio >= target_db), None)
    return {"roundings": tuple(rows), "bits_needed": enough, "bits_for_db": target_db}


def pruning(kept: Iterable[float], energy: float) -> dict[str, Any]:
    """The share of the energy that remains at each point of the pruning curve; nothing if it overflowed."""
    if not math.isfinite(energy) or not energy:
        return {}
    pairs = zip(PRUNE_SHARES, kept, strict=True)
    return {"pruning": tuple(Pruned(share, min(1.0, remaining / energy)) for share, remaining in pairs)}


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
