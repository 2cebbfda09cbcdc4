"""Tensors whose squares or fourth powers leave the range of float64: analysed again, scaled by a power of two."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from assay.checkpoint.statistics.dtypes import DTYPES, DType
from assay.document.weights import Norms, Rounding, TensorStatistics

LARGEST_EXPONENT = 200
"""Of the largest magnitude, up to which the sum of fourth powers is safe."""
_BFLOAT16_UNDERFLOWS = -134
"""Smaller numbers round to zero in bfloat16."""
_LENGTHS = ("mean", "std", "l1", "l2", "near_zero_below")
_RATIOS = ("skewness", "kurtosis", "near_zeros", "pruning", "n_of_m", "bits_needed", "bits_for_db")


def at_any_scale(dtype: DType, compute: Callable[[int], TensorStatistics]) -> TensorStatistics:
    """The statistics that `compute` gives for the tensor times two to an exponent, of the tensor itself."""
    row = compute(0)
    exponent = _exponent(dtype, row)
    return _combined(row, compute(-exponent), exponent) if exponent else row


def scaled(data: NDArray[np.uint8], dtype: str, exponent: int) -> NDArray[np.uint8]:
    """The bytes of the numbers times two to the exponent."""
    if not exponent:
        return data
    with np.errstate(invalid="ignore", under="ignore"):
        return np.asarray(np.ldexp(data.view(DTYPES[dtype].numpy), exponent)).view(np.uint8)


def _exponent(dtype: DType, row: TensorStatistics) -> int:
    """The exponent of the largest magnitude if it is extreme; else 0."""
    if dtype.numpy != "<f8" or row.min is None or row.max is None:
        return 0
    exponent = math.frexp(max(-row.min, row.max))[1]
    return exponent if abs(exponent) > LARGEST_EXPONENT else 0


def _combined(row: TensorStatistics, small: TensorStatistics, exponent: int) -> TensorStatistics:
    """The row of a tensor with the sums of its scaled one; what is counted or ordered is that of the tensor."""
    lengths = {name: _times(getattr(small, name), exponent) for name in _LENGTHS}
    ratios = {name: getattr(small, name) for name in _RATIOS}
    norms = {
        "rows": _row_norms(row.rows, small.rows, exponent),
        "columns": _norms(row.columns, small.columns, exponent),
    }
    return replace(row, **lengths, **ratios, **norms, roundings=_roundings(row, small, exponent))


def _roundings(row: TensorStatistics, small: TensorStatistics, exponent: int) -> tuple[Rounding, ...]:
    """Those of the scaled tensor, but for bfloat16, which has no scale."""
    own = [each for each in row.roundings if each.format == "bfloat16"]
    if exponent < _BFLOAT16_UNDERFLOWS:
        own = [Rounding("bfloat16", "none", 0.0)]
    return (*own, *(each for each in small.roundings if each.format != "bfloat16"))


def _row_norms(rows: Norms | None, small: Norms | None, exponent: int) -> Norms | None:
    """Only the deviation of norms of rows is that of the scaled tensor: others cannot overflow or underflow."""
    std = None if small is None else _times(small.std, exponent)
    return None if rows is None or std is None else replace(rows, std=std)


def _norms(norms: Norms | None, small: Norms | None, exponent: int) -> Norms | None:
    """The norms of the scaled tensor, times two to the exponent."""
    if norms is None or small is None:
        return None
    figures = {name: _times(getattr(small, name), exponent) for name in ("min", "max", "mean", "std")}
    return None if None in figures.values() else replace(norms, **figures)


def _times(value: float | None, exponent: int) -> float | None:
    """The value times two to the exponent; None if that overflows."""
    try:
        return None if value is None else math.ldexp(value, exponent)
    except OverflowError:
        return None
