"""Patterns as unsigned keys that order as the numbers do, at any prefix length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assay.weights.dtypes import DType


def to_key(raw: Any, bits: int, dtype: DType) -> Any:
    """The key of a raw prefix of so many bits; integers or arrays of int64."""
    sign = 1 << (bits - 1)
    if dtype.real:
        flipped = raw ^ ((1 << bits) - 1)
        return np.where(raw & sign, flipped, raw | sign) if isinstance(raw, np.ndarray) else _pick(raw, sign, flipped)
    return raw ^ sign if dtype.numpy[1] == "i" else raw


def to_raw(key: Any, bits: int, dtype: DType) -> Any:
    """The raw prefix of a key; the inverse of `to_key`."""
    sign = 1 << (bits - 1)
    if dtype.real:
        flipped = key ^ ((1 << bits) - 1)
        if isinstance(key, np.ndarray):
            return np.where(key & sign, key ^ sign, flipped)
        return key ^ sign if key & sign else flipped
    return key ^ sign if dtype.numpy[1] == "i" else key


def number(raw: int, dtype: DType) -> float | int:
    """What a whole pattern is worth; zero has no sign."""
    value: float | int = np.array([raw], dtype=f"<u{dtype.bytes}").view(dtype.numpy)[0].item()
    return value + 0.0 if dtype.real else value


def key_at_least(value: float, dtype: DType) -> int:
    """The key below which lie exactly the numbers less than `value`."""
    bits = 8 * dtype.bytes
    if not dtype.real:
        limits = np.iinfo(dtype.numpy)
        whole = min(max(math.ceil(value), int(limits.min)), int(limits.max))
        return int(to_key(whole & ((1 << bits) - 1), bits, dtype))
    near = np.array([value]).astype(dtype.numpy)
    if float(near[0]) < value:
        near = np.nextafter(near, np.array([np.inf], dtype=dtype.numpy))
    if near[0] == 0:
        near = np.array([-0.0], dtype=dtype.numpy)
    return int(to_key(int(near.view(f"<u{dtype.bytes}")[0]), bits, dtype))


def _pick(raw: int, sign: int, flipped: int) -> int:
    return flipped if raw & sign else raw | sign
