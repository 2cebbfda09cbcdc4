"""The dtypes that can be analysed: their size, the passes they need, and the value of each bit pattern."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

COUNTED = "counted"
"""Every bit pattern is counted: all statistics of a tensor follow exactly."""
WIDE = "wide"
"""Too many bit patterns to count: the first pass takes moments and the top 16 bits, refining passes the rest."""

BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, UINT32, INT64, UINT64 = range(8)
INT8, UINT8, E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ = range(8, 14)
"""The native formats, in the kernel's order."""


class DType(Struct, frozen=True):
    """The properties of a dtype that the passes use."""

    name: str
    bytes: int
    """Bytes of one part (see `parts`)."""
    family: str
    native: int
    """The kernel format that reads it; -1 if there is none."""
    numpy: str = ""
    """The numpy dtype with the same numbers; empty if numpy has none."""
    real: bool = True
    """Whether it is a floating-point type, for which quantization, denormals and row statistics make sense."""
    parts: int = 1
    """2 for complex numbers, which are analysed as pairs."""
    float_bits: tuple[int, int, int] = (0, 0, 0)
    """Exponent bits, mantissa bits and bias of floats that numpy does not have."""
    nan: str = "ieee"
    """How it encodes non-finite values: `ieee`, `fn` (all ones is NaN), `fnuz` (minus zero is NaN)."""

    @property
    def tiny(self) -> float:
        """The smallest normal number; 0 for integers."""
        if not self.real:
            return 0.0
        return float(np.finfo(self.numpy).tiny) if self.numpy else 2.0 ** (1 - self.float_bits[2])


def _float(name: str, size: int, native: int, bits: tuple[int, int, int], nan: str = "ieee", parts: int = 1) -> DType:
    return DType(name, size, COUNTED, native, float_bits=bits, nan=nan, parts=parts)


_TABLE = (
    _float("bfloat16", 2, BFLOAT16, (8, 7, 127)),
    _float("float16", 2, FLOAT16, (5, 10, 15)),
    _float("complex32", 2, FLOAT16, (5, 10, 15), parts=2),
    _float("float8_e4m3fn", 1, E4M3FN, (4, 3, 7), "fn"),
    _float("float8_e5m2", 1, E5M2, (5, 2, 15)),
    _float("float8_e4m3fnuz", 1, E4M3FNUZ, (4, 3, 8), "fnuz"),
    _float("float8_e5m2fnuz", 1, E5M2FNUZ, (5, 2, 16), "fnuz"),
    DType("float32", 4, WIDE, FLOAT32, "<f4"),
    DType("float64", 8, WIDE, FLOAT64, "<f8"),
    DType("complex64", 4, WIDE, FLOAT32, "<f4", parts=2),
    DType("complex128", 8, WIDE, FLOAT64, "<f8", parts=2),
    DType("int8", 1, COUNTED, INT8, "|i1", real=False),
    DType("uint8", 1, COUNTED, UINT8, "|u1", real=False),
    DType("bool", 1, COUNTED, UINT8, "|u1", real=False),
    DType("int16", 2, COUNTED, -1, "<i2", real=False),
    DType("uint16", 2, COUNTED, -1, "<u2", real=False),
    DType("int32", 4, WIDE, INT32, "<i4", real=False),
    DType("uint32", 4, WIDE, UINT32, "<u4", real=False),
    DType("int64", 8, WIDE, INT64, "<i8", real=False),
    DType("uint64", 8, WIDE, UINT64, "<u8", real=False),
)
DTYPES = {dtype.name: dtype for dtype in _TABLE}


@lru_cache(maxsize=32)
def values(name: str) -> NDArray[np.float64]:
    """The value of every bit pattern of a counted dtype, as a read-only float64 array."""
    dtype = DTYPES[name]
    patterns = np.arange(1 << 8 * dtype.bytes, dtype=np.uint16)
    if dtype.numpy:
        table = patterns.astype(f"<u{dtype.bytes}").view(dtype.numpy).astype(np.float64)
    else:
        table = _decoded(patterns, dtype)
    table.flags.writeable = False
    return table


def _decoded(patterns: NDArray[np.uint16], dtype: DType) -> NDArray[np.float64]:
    exponent_bits, mantissa_bits, bias = dtype.float_bits
    ones = (1 << exponent_bits) - 1
    exponent = (patterns >> mantissa_bits & ones).astype(np.int64)
    mantissa = (patterns & ((1 << mantissa_bits) - 1)).astype(np.float64)
    sign = np.where(patterns >> (exponent_bits + mantissa_bits), -1.0, 1.0)
    fraction = mantissa * 2.0**-mantissa_bits + (exponent > 0)
    table = sign * np.ldexp(fraction, np.maximum(exponent, 1) - bias)
    if dtype.nan == "fnuz":
        table[1 << (exponent_bits + mantissa_bits)] = np.nan
    elif dtype.nan == "fn":
        table[(exponent == ones) & (mantissa == (1 << mantissa_bits) - 1)] = np.nan
    else:
        table[(exponent == ones) & (mantissa != 0)] = np.nan
        infinite = (exponent == ones) & (mantissa == 0)
        table[infinite] = sign[infinite] * np.inf
    return np.asarray(table, dtype=np.float64)
