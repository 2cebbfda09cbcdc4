"""Maps bit patterns to unsigned keys with the same order as the numbers, also for prefixes of the patterns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.dtypes import DType


def to_key(raw: Any, bits: int, dtype: DType) -> Any:
    """The key of `raw`, a prefix of `bits` bits; works on integers and arrays."""
    sign, ones = _masks(raw, bits)
    if dtype.real:
        return _either(raw & sign, raw ^ ones, raw | sign)
    return raw ^ sign if dtype.numpy[1] == "i" else raw


def to_raw(key: Any, bits: int, dtype: DType) -> Any:
    """The prefix that has this key; the inverse of `to_key`."""
    sign, ones = _masks(key, bits)
    if dtype.real:
        return _either(key & sign, key ^ sign, key ^ ones)
    return key ^ sign if dtype.numpy[1] == "i" else key


def keys_at_least(values: Sequence[float], dtype: DType) -> NDArray[np.uint64]:
    """For each value, the smallest key whose number is at least the value."""
    bits = 8 * dtype.bytes
    if not dtype.real:
        limits = np.iinfo(dtype.numpy)
        integers = [min(max(math.ceil(value), int(limits.min)), int(limits.max)) for value in values]
        return np.array([to_key(one & ((1 << bits) - 1), bits, dtype) for one in integers], dtype=np.uint64)
    exact = np.array(values, dtype=np.float64)
    rounded = exact.astype(dtype.numpy)
    rounded = np.where(rounded < exact, np.nextafter(rounded, np.array(np.inf, dtype=dtype.numpy)), rounded)
    rounded[rounded == 0] = -0.0
    return np.asarray(to_key(rounded.view(f"<u{dtype.bytes}").astype(np.uint64), bits, dtype))


def _masks(keys: Any, bits: int) -> tuple[Any, Any]:
    """Masks of the sign bit and of all bits, in the type of the keys."""
    sign, ones = 1 << (bits - 1), (1 << bits) - 1
    return (keys.dtype.type(sign), keys.dtype.type(ones)) if isinstance(keys, np.ndarray) else (sign, ones)


def _either(chosen: Any, one: Any, other: Any) -> Any:
    """`one` for non-zero `chosen`, else `other`; works on integers and arrays."""
    return np.where(chosen, one, other) if isinstance(chosen, np.ndarray) else one if chosen else other
