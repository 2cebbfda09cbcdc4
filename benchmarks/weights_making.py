"""Makes the safetensors files of the weights benchmark: normal values, and values that are hard to analyse."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAMES = {
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "int8": "I8",
}
BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1, "int8": 1}
COLS = 4096

Numbers = NDArray[np.float32]


def write(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...], NDArray[np.uint8]]]) -> Path:
    """A safetensors file of tensors with their dtype, shape and bytes."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": NAMES[dtype], "shape": shape, "data_offsets": [at, at + data.size]}
        at += data.size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data.tobytes())
    return path


def stored(numbers: Numbers, dtype: str) -> NDArray[np.uint8]:
    """The bytes of numbers around 0.02 in a dtype; 8-bit types are scaled to their range."""
    if dtype == "bfloat16":
        return (numbers.view("<u4") >> 16).astype("<u2").view(np.uint8)
    if dtype == "int8":
        return np.clip(np.rint(numbers * 1500), -127, 127).astype("i1").view(np.uint8)
    if dtype == "float8_e4m3fn":
        # The upper part of a float16 pattern is one of e4m3, but for the bias, which a factor of 2^-8 makes up for.
        halves = (numbers * 2.0**4 * 2.0**-8).astype("<f2").view("<u2").astype(np.uint32) + 0x40
        return ((halves >> 8 & 0x80) | (halves >> 7 & 0x7F)).astype(np.uint8)
    kinds = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}
    return np.ascontiguousarray(numbers.astype(kinds[dtype])).view(np.uint8)


def normal(count: int) -> Numbers:
    """Normal values with a standard deviation of 0.02."""
    return np.float32(0.02) * np.random.default_rng(0).standard_normal(count, dtype=np.float32)


def matrices(path: Path, dtype: str, megabytes: int, data_of: Callable[[int], NDArray[np.uint8]]) -> Path:
    """A file of matrices of 32 MB each, whose bytes are those of `data_of` for their number of elements."""
    rows = (32 << 20) // BYTES[dtype] // COLS
    data = data_of(rows * COLS)
    return write(path, {f"layers.{at}.w": (dtype, (rows, COLS), data) for at in range(max(1, megabytes // 32))})


def random_bits(count: int, dtype: str) -> NDArray[np.uint8]:
    """Uniformly random bits."""
    return np.random.default_rng(1).integers(0, 256, count * BYTES[dtype], dtype=np.uint8)


def nan_in_rows(count: int, dtype: str) -> NDArray[np.uint8]:
    """Normal values with one NaN in every row; for int8 its smallest value."""
    data = stored(normal(count), dtype).reshape(-1, COLS * BYTES[dtype]).copy()
    for byte in range(BYTES[dtype]):
        data[:, 64 * BYTES[dtype] + byte] = 0x80 if dtype == "int8" else 0x7F if byte == BYTES[dtype] - 1 else 0xFF
    return data.reshape(-1)


def constant(count: int, dtype: str) -> NDArray[np.uint8]:
    """One value."""
    return stored(np.full(count, 0.02, dtype=np.float32), dtype)


HARD: dict[str, Callable[[int, str], NDArray[np.uint8]]] = {
    "constant": constant,
    "random bits": random_bits,
    "NaN in every row": nan_in_rows,
}
