"""Converts the numbers and enumerations of an exported program to those of the document."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from assay.checkpoint.formats.pt2_schema import TensorMeta, Union
from assay.checkpoint.pickle.values import contiguous_strides
from assay.document.rows import TensorType

DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
    29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz",
    33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
LAYOUTS = {
    1: "sparse_coo", 2: "sparse_csr", 3: "sparse_csc", 4: "sparse_bsr", 5: "sparse_bsc", 6: "_mkldnn", 7: "strided",
}  # fmt: skip
MEMORY_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
UNKNOWN_SIZE = 1
"""Assumed for a dynamic size without an example value in the file; listed in the assumptions."""

_SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)|(\w+)")
"""A single symbol, in the syntax of newer and of older files."""


class SymbolicSizes:
    """Turns sizes into integers and records which of them are dynamic."""

    def __init__(self) -> None:
        self._examples: dict[str, int] = {}
        self._unknown: set[str] = set()

    def number(self, size: Union) -> int:
        """A plain size, or the example value of a dynamic one."""
        if "as_int" in size:
            return int(size["as_int"])
        expression = size["as_expr"]
        text, hint = str(expression["expr_str"]), expression.get("hint") or {}
        symbol = _SYMBOL.fullmatch(text)
        name = (symbol.group(1) or symbol.group(2)) if symbol else text
        if "as_int" not in hint:
            self._unknown.add(name)
            return UNKNOWN_SIZE
        if symbol:
            self._examples[name] = int(hint["as_int"])
        return int(hint["as_int"])

    def tensor_type(self, meta: TensorMeta) -> TensorType:
        """The shape, dtype, layout and (if not contiguous) strides of a tensor."""
        shape = tuple(self.number(size) for size in meta.sizes)
        strides = tuple(self.number(stride) for stride in meta.strides)
        layout = LAYOUTS.get(meta.layout, "strided")
        is_strided = layout == "strided" and not _contiguous(shape, strides)
        return TensorType(shape, DTYPES.get(meta.dtype, "unknown"), strides if is_strided else None, layout)

    def notes(self) -> tuple[str, ...]:
        """Notes on the values assumed for dynamic sizes."""
        examples = ", ".join(f"{name} = {value}" for name, value in sorted(self._examples.items()))
        missing = ", ".join(sorted(self._unknown))
        examples_note = f"dynamic sizes use the file's example values: {examples}" if examples else ""
        assumed_note = (
            f"dynamic sizes without an example are assumed to be {UNKNOWN_SIZE}: {missing}" if missing else ""
        )
        return tuple(filter(None, (examples_note, assumed_note)))


def plain_argument(argument: Mapping[str, Any], symbols: Mapping[str, Any]) -> Any:
    """An argument without tensors as plain JSON; `symbols` maps the names of symbolic numbers to their values."""
    ((kind, value),) = argument.items()
    if kind in _TABLES:
        return _TABLES[kind].get(value, value)
    if kind.startswith("as_sym_"):
        return [_symbolic(item, symbols) for item in value] if isinstance(value, list) else _symbolic(value, symbols)
    if kind in _SPECIAL:
        return _SPECIAL[kind](value)
    if kind == "as_string_to_argument":
        return {name: plain_argument(item, symbols) for name, item in value.items()}
    return value


_TABLES = {"as_scalar_type": DTYPES, "as_layout": LAYOUTS, "as_memory_format": MEMORY_FORMATS}
_NOT_FINITE = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


_SPECIAL: dict[str, Callable[[Any], Any]] = {
    "as_none": lambda value: None,
    "as_float": _finite,
    "as_floats": lambda values: [_finite(value) for value in values],
    "as_device": lambda value: value["type"] if value.get("index") is None else f"{value['type']}:{value['index']}",
    "as_complex": lambda value: str(complex(value["real"], value["imag"])),
    "as_graph": lambda value: value["name"],
    "as_custom_obj": lambda value: value["class_fqn"],
    "as_optional_tensor": lambda value: None,
}


def _symbolic(value: Mapping[str, Any], symbols: Mapping[str, Any]) -> Any:
    if "as_name" in value:
        return symbols.get(value["as_name"], value["as_name"])
    return next(iter(value.values()))


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    dimensions = zip(shape, strides, contiguous_strides(shape), strict=True)
    return not strides or 0 in shape or all(size == 1 or stride == step for size, stride, step in dimensions)
