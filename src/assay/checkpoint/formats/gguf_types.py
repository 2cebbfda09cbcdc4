"""GGUF's type numbers, and the block size of each tensor type."""

from __future__ import annotations

from typing import NamedTuple

VERSIONS = (1, 2, 3)
DEFAULT_ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 20

TEXT, LIST, BOOL = 8, 9, 7
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", BOOL: "B", 10: "Q", 11: "q", 12: "d"}
"""The `struct` codes of the scalar metadata types."""


class GgufType(NamedTuple):
    """How one type is stored: blocks of `block` numbers, each block `bytes` bytes long."""

    dtype: str
    block: int
    bytes: int


_PLAIN = {
    0: ("float32", 4), 1: ("float16", 2), 30: ("bfloat16", 2), 28: ("float64", 8),
    24: ("int8", 1), 25: ("int16", 2), 26: ("int32", 4), 27: ("int64", 8),
}  # fmt: skip
_BLOCKS = {
    2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20), 6: ("q5_0", 32, 22), 7: ("q5_1", 32, 24), 8: ("q8_0", 32, 34),
    10: ("q2_k", 256, 84), 11: ("q3_k", 256, 110), 12: ("q4_k", 256, 144), 13: ("q5_k", 256, 176),
    14: ("q6_k", 256, 210), 15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66), 17: ("iq2_xs", 256, 74), 18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18), 21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82), 23: ("iq4_xs", 256, 136),
    29: ("iq1_m", 256, 56), 34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17), 40: ("nvfp4", 64, 36),
}  # fmt: skip

BLOCKS = {name: (block, size) for name, block, size in _BLOCKS.values()}
"""Numbers per block and bytes per block of each block-quantised type."""

TENSOR_TYPES = {
    **{number: GgufType(dtype, 1, size) for number, (dtype, size) in _PLAIN.items()},
    **{number: GgufType(f"gguf:{name}", block, size) for number, (name, block, size) in _BLOCKS.items()},
}
