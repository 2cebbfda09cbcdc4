"""Helpers that encode tensors of every dtype as bytes and compute their statistics with the engine."""

from __future__ import annotations

import numpy as np

from assay.checkpoint.statistics.chunks import Weight
from assay.checkpoint.statistics.dtypes import DTYPES, values
from assay.checkpoint.statistics.engine import EngineOptions, run


def encoded(numbers, dtype):
    """The bytes of float64 numbers in a dtype: converted by numpy if it can, else to the nearest pattern."""
    kind = DTYPES[dtype]
    if kind.numpy:
        with np.errstate(all="ignore"):
            return np.asarray(numbers).astype(kind.numpy).tobytes()
    if dtype in ("float16", "complex32"):
        with np.errstate(all="ignore"):
            return np.asarray(numbers).astype("<f2").tobytes()
    table = values(dtype)
    order = np.argsort(table[np.isfinite(table)], kind="stable")
    patterns = np.flatnonzero(np.isfinite(table))[order]
    levels = table[patterns]
    flat = np.asarray(numbers, dtype=np.float64).ravel()
    index = np.clip(np.searchsorted(levels, np.nan_to_num(flat)), 1, levels.size - 1)
    near = np.where(np.abs(levels[index] - flat) < np.abs(levels[index - 1] - flat), index, index - 1)
    chosen = patterns[near]
    if np.isnan(table).any():
        chosen[np.isnan(flat)] = np.flatnonzero(np.isnan(table))[0]
    for sign in (np.inf, -np.inf):
        if (table == sign).any():
            chosen[flat == sign] = np.flatnonzero(table == sign)[0]
    return chosen.astype(f"<u{kind.bytes}").tobytes()


def decoded(raw, dtype):
    """The bytes as float64 numbers."""
    kind = DTYPES[dtype]
    if kind.family == "counted":
        return values(dtype)[np.frombuffer(raw, f"<u{kind.bytes}")]
    return np.frombuffer(raw, kind.numpy).astype(np.float64)


def measured(raw, dtype, shape, **options):
    """The statistics of one tensor with these bytes."""
    weight = Weight(("w",), dtype, tuple(shape), "file", 0, len(raw))
    results = list(
        run([weight], lambda chunk: raw[chunk.offset : chunk.offset + chunk.bytes], EngineOptions(1, **options))
    )
    return results[0][1]
