"""The tables of unique modules and unique operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from assay import units
from assay.analysis.parameters import known_sum
from assay.analysis.uniques.entries import UniqueModule, UniqueOp
from assay.views.tables import Column, Table

_MODULE_COLUMNS = (
    Column("id"),
    Column("class", shrinks=True),
    Column("count", "right", units.exact),
    Column("calls", "right", units.exact, drops=True),
    Column("FLOPs", "right", units.count, drops=True),
    Column("first path", shrinks=True),
    Column("inputs", shrinks=True),
    Column("outputs", shrinks=True),
    Column("dtypes", shrinks=True, drops=True),
    Column("parameters", shrinks=True, drops=True),
)

_OP_COLUMNS = (
    Column("id"),
    Column("op", shrinks=True),
    Column("count", "right", units.exact),
    Column("FLOPs each", "right", units.count, drops=True),
    Column("first in", shrinks=True, drops=True),
    Column("inputs", shrinks=True),
    Column("outputs", shrinks=True),
    Column("dtypes", shrinks=True, drops=True),
    Column("attributes", shrinks=True, drops=True),
)


def module_table(entries: Sequence[UniqueModule]) -> Table:
    """One row a unique module; `calls` and `FLOPs` are those of its first occurrence."""
    return Table(_MODULE_COLUMNS, [_module_row(entry) for entry in entries])


def op_table(entries: Sequence[UniqueOp]) -> Table:
    """One row a unique operation."""
    return Table(_OP_COLUMNS, [_op_row(entry) for entry in entries])


def _module_row(entry: UniqueModule) -> list[Any]:
    return [
        entry.id,
        entry.class_name,
        len(entry.occurrences),
        entry.calls,
        None if entry.cost is None else entry.cost.flops,
        entry.module_path,
        _joined(entry.input_shapes),
        _joined(entry.output_shapes),
        _distinct([*entry.input_dtypes, *entry.output_dtypes]),
        _settings(entry.parameters),
    ]


def _op_row(entry: UniqueOp) -> list[Any]:
    types = entry.tensor_types
    dtypes = [tensor.dtype for tensor in types.inputs] + [tensor.dtype for tensor in types.outputs]
    return [
        entry.id,
        entry.op_name,
        entry.count,
        None if entry.cost is None else known_sum((entry.cost.matrix_flops, entry.cost.pointwise_flops)),
        f"{entry.source_module_id} {entry.source_module_class}",
        _joined(tensor.shape for tensor in types.inputs),
        _joined(tensor.shape for tensor in types.outputs),
        _distinct(dtypes),
        _settings(entry.attributes),
    ]


def _joined(items: Iterable[str]) -> str | None:
    return ", ".join(items) or None


def _distinct(items: Iterable[str]) -> str | None:
    return _joined(dict.fromkeys(items))


def _settings(values: Mapping[str, Any]) -> str:
    """Names and values on one line: `stride=[1,1] groups=1`."""
    return " ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in values.items())
