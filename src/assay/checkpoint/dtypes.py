"""The names that file formats use for dtypes, and which dtypes can be read as plain numbers."""

from __future__ import annotations

from assay.document.dtypes import BITS

STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "QInt8Storage": "qint8", "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
    "UntypedStorage": "uint8",
}  # fmt: skip
"""The dtype of each torch storage class."""

ALIASES = {
    "double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
    "cfloat": "complex64", "cdouble": "complex128", "chalf": "complex32",
}  # fmt: skip

SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "C64": "complex64",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip

PACKED = {"F4": ("float4_e2m1fn", 4), "F6_E2M3": ("float6_e2m3fn", 6), "F6_E3M2": ("float6_e3m2fn", 6)}
"""Safetensors dtypes smaller than a byte: our name and the bits per element."""

NUMPY = {
    "f8": "float64", "f4": "float32", "f2": "float16", "c8": "complex64", "c16": "complex128",
    "i8": "int64", "i4": "int32", "i2": "int16", "i1": "int8",
    "u8": "uint64", "u4": "uint32", "u2": "uint16", "u1": "uint8", "b1": "bool",
}  # fmt: skip

FLIPPED = "its values must be conjugated or negated when read: not supported"
"""The problem of a tensor that is stored as the conjugate or the negative of its values."""

PLAIN = frozenset(
    name for name in BITS if BITS[name] % 8 == 0 and not name.startswith(("q", "bits")) and not name.endswith("_x2")
)
"""Dtypes whose bytes are the numbers themselves, neither packed nor quantised."""


_BYTES = {name: bits // 8 for name, bits in BITS.items() if bits % 8 == 0}


def item_bytes(dtype: str) -> int | None:
    """Bytes of one element; None if the dtype is unknown or smaller than a byte."""
    return _BYTES.get(dtype)


def unreadable(dtype: str) -> str:
    """Why no statistics can be computed for `dtype`; empty if they can."""
    if dtype in PLAIN:
        return ""
    is_known = dtype in BITS or dtype in {name for name, _ in PACKED.values()}
    return "packed or quantised elements: the bytes are not plain numbers" if is_known else "unknown dtype"
