"""Patterns as unsigned keys that order as the numbers do, at any prefix length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.dtypes import DType


def to_key(raw: Any, bits: int, dtype: DType) -> Any:
    """The key of a raw prefix of so many bits; integers or arrays of them."""
    sign, ones = _masks(raw, bits)
    if dtype.real:
        return _either(raw & sign, raw ^ ones, raw | sign)
    return raw ^ sign if dtype.numpy[1] == "i" else raw


def to_raw(key: Any, bits: int, dtype: DType) -> Any:
    """The raw prefix of a key; the inverse of `to_key`."""
    sign, ones = _masks(key, bits)
    if dtype.real:
        return _either(key & sign, key ^ sign, key ^ ones)
    return key ^ sign if dtype.numpy[1] == "i" else key


def keys_at_least(values: Sequence[float], dtype: DType) -> NDArray[np.uint64]:
    """The keys below which lie exactly the numbers less than each value."""
    bits = 8 * dtype.bytes
    if not dtype.real:
        limits = np.iinfo(dtype.numpy)
        whole = [min(max(math.ceil(value), int(limits.min)), int(limits.max)) for value in values]
        return np.array([to_key(one & ((1 << bits) - 1), bits, dtype) for one in whole], dtype=np.uint64)
    wanted = np.array(values, dtype=np.float64)
    near = wanted.astype(dtype.numpy)
    near = np.where(near < wanted, np.nextafter(near, np.array(np.inf, dtype=dtype.numpy)), near)
    near[near == 0] = -0.0
    return np.asarray(to_key(near.view(f"<u{dtype.bytes}").astype(np.uint64), bits, dtype))


def _masks(keys: Any, bits: int) -> tuple[Any, Any]:
    """The sign bit and all bits, of the type of the keys."""
    sign, ones = 1 << (bits - 1), (1 << bits) - 1
    return (keys.dtype.type(sign), keys.dtype.type(ones)) if isinstance(keys, np.ndarray) else (sign, ones)


def _either(chosen: Any, one: Any, other: Any) -> Any:
    """`one` where `chosen` is not zero, else `other`; numbers or arrays of them."""
    return np.where(chosen, one, other) if isinstance(chosen, np.ndarray) else one if chosen else other
