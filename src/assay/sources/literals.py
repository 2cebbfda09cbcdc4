"""Input literals: `1x3x224x224:float32`, `input_ids=1x128:int64[0,50257], mask=1x128:bool`.

Parts are separated by commas, semicolons or spaces. The comma of a range is inside brackets, so the two are never
confused.
"""

from __future__ import annotations

import re

from assay.errors import InputsError
from assay.messages import one_line
from assay.sources.tensors import DTYPES, TensorSpec, dtype_name

EXAMPLE = "1x3x224x224:float32 or input_ids=1x128:int64[0,50257]"

_SPLIT = re.compile(r"[,;\s]+(?![^\[\]]*\])")
_PART = re.compile(
    r"(?:(?P<name>[^\W\d]\w*)=)?"
    r"(?P<shape>scalar|\d+(?:[x×]\d+)*)"
    r"(?::(?P<dtype>[\w.]+))?"
    r"(?:\[\s*(?P<low>-?\d+)\s*,\s*(?P<high>-?\d+)\s*\])?"
)
_LONGEST = 10_000
_LARGEST_DIM = 2**63 - 1


def parse(text: str) -> tuple[TensorSpec, ...]:
    """The tensors that the literal `text` describes; raises `InputsError` if it is not a valid literal."""
    if len(text) > _LONGEST:
        raise InputsError(
            f"inputs literal {one_line(text)} is too long (over {_LONGEST:,} characters): write {EXAMPLE}"
        )
    parts = [part for part in _SPLIT.split(text.strip()) if part]
    if not parts:
        raise InputsError(f"the inputs literal is empty: write {EXAMPLE}")
    if len(parts) > 1 and all(part.isdigit() for part in parts):
        raise InputsError(f"inputs literal {one_line(text)} looks like one shape: write {one_line('x'.join(parts))}")
    specs = tuple(_part(part) for part in parts)
    names = [spec.name for spec in specs if spec.name is not None]
    for name in names:
        if names.count(name) > 1:
            raise InputsError(
                f"inputs literal {one_line(text)} has {one_line(name)!r} twice: name each argument once"
            )
    return specs


def _part(part: str) -> TensorSpec:
    """The tensor that one part of a literal describes."""
    match = _PART.fullmatch(part)
    if match is None:
        raise InputsError(
            f"{one_line(part)!r} is not a valid inputs literal: write name=shape:dtype, such as {EXAMPLE}"
        )
    dtype = dtype_name(match["dtype"] or "float32")
    if dtype is None:
        raise InputsError(
            f"unknown dtype in the inputs literal {one_line(part)!r}: expected one of {', '.join(DTYPES)}"
        )
    shape = () if match["shape"] == "scalar" else tuple(int(dim) for dim in re.split("[x×]", match["shape"]))
    if max(shape, default=0) > _LARGEST_DIM:
        raise InputsError(f"inputs literal {one_line(part)!r} has a dimension above {_LARGEST_DIM}: write {EXAMPLE}")
    low, high = (int(match["low"]), int(match["high"])) if match["low"] is not None else (None, None)
    if low is not None and high is not None and low >= high:
        raise InputsError(f"inputs literal {one_line(part)!r} has an empty range: the upper bound is not included")
    return TensorSpec(shape, dtype, match["name"], low, high)
