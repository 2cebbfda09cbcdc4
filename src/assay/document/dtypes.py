"""Bits per element of each dtype, by the dtype's name."""

from __future__ import annotations

BITS = {
    "bool": 8, "uint8": 8, "int8": 8, "uint16": 16, "int16": 16, "uint32": 32, "int32": 32,
    "uint64": 64, "int64": 64,
    "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64,
    "complex32": 32, "complex64": 64, "complex128": 128,
    "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8,
    "float4_e2m1fn_x2": 8,
    "qint8": 8, "quint8": 8, "qint32": 32, "quint4x2": 4, "quint2x4": 2,
    "bits8": 8, "bits16": 16, "bits1x8": 8, "bits2x4": 8, "bits4x2": 8,
    **{f"{sign}int{bits}": bits for sign in ("", "u") for bits in range(1, 8)},
}  # fmt: skip
"""Bits per element; an element of `float4_e2m1fn_x2` is a pair of values and takes a byte."""

VALUES_PER_ELEMENT = {"float4_e2m1fn_x2": 2}
"""Values per element of packed dtypes that hold more than one."""


def nbytes(elements: int, dtype: str) -> int:
    """Bytes of `elements` elements, rounded up: `nbytes(3, "int4") == 2`; an unknown dtype counts as 4 bytes each."""
    return (elements * BITS.get(dtype, 32) + 7) // 8


def packing(dtype: str) -> int:
    """Values per element: `packing("float4_e2m1fn_x2") == 2`."""
    return VALUES_PER_ELEMENT.get(dtype, 1)
