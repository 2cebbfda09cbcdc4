"""The tables of unique modules and unique ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from assay import units
from assay.analysis.parameters import sum_if_all_known
from assay.analysis.uniques.entries import UniqueModule, UniqueOp
from assay.views.tables import Column, Table

_MODULE_COLUMNS: tuple[Column[UniqueModule], ...] = (
    Column("id", lambda entry: entry.id),
    Column("class", lambda entry: entry.class_name, shrinks=True, cuts="middle", keeps=12),
    Column("modules", lambda entry: len(entry.occurrences), "right", units.exact, name="count"),
    Column("calls (first)", lambda entry: entry.calls, "right", units.exact, drops=True, name="calls"),
    Column("FLOPs (first)", lambda entry: _module_flops(entry), "right", units.count, drops=2, name="FLOPs"),
    Column("first path", lambda entry: entry.module_path, shrinks=True, cuts="middle", keeps=16),
    Column("inputs", lambda entry: _joined(entry.input_shapes), shrinks=True, drops=1),
    Column("outputs", lambda entry: _joined(entry.output_shapes), shrinks=True, drops=2),
    Column("dtypes", lambda entry: _distinct([*entry.input_dtypes, *entry.output_dtypes]), shrinks=True, drops=3),
    # Kept at any width: without it, modules that differ in their settings look the same.
    Column("configuration", lambda entry: _settings(entry.parameters), shrinks=True, keeps=12, name="parameters"),
)

_OP_COLUMNS: tuple[Column[UniqueOp], ...] = (
    Column("id", lambda entry: entry.id),
    Column("op", lambda entry: entry.op_name, show=units.op, shrinks=True, cuts="middle"),
    Column("count", lambda entry: entry.count, "right", units.exact),
    Column("FLOPs each", lambda entry: _flops(entry), "right", units.count, drops=True),
    Column(
        "first in", lambda entry: f"{entry.source_module_id} {entry.source_module_class}", shrinks=True, drops=True
    ),
    Column("inputs", lambda entry: _joined(one.shape for one in entry.tensor_types.inputs), shrinks=True),
    Column("outputs", lambda entry: _joined(one.shape for one in entry.tensor_types.outputs), shrinks=True),
    Column("dtypes", lambda entry: _dtypes(entry), shrinks=True, drops=True),
    Column("attributes", lambda entry: _settings(entry.attributes), shrinks=True, drops=True),
)


def module_table(entries: Sequence[UniqueModule]) -> Table:
    """One row per unique module: how many modules are equal, and the calls and FLOPs of the first of them."""
    return Table(_MODULE_COLUMNS, entries)


def op_table(entries: Sequence[UniqueOp]) -> Table:
    """One row per unique op."""
    return Table(_OP_COLUMNS, entries)


def _module_flops(entry: UniqueModule) -> int | None:
    return None if entry.cost is None else entry.cost.flops


def _flops(entry: UniqueOp) -> int | None:
    return None if entry.cost is None else sum_if_all_known((entry.cost.matrix_flops, entry.cost.pointwise_flops))


def _dtypes(entry: UniqueOp) -> str | None:
    types = entry.tensor_types
    return _distinct([*(one.dtype for one in types.inputs), *(one.dtype for one in types.outputs)])


def _joined(items: Iterable[str]) -> str | None:
    return ", ".join(items) or None


def _distinct(items: Iterable[str]) -> str | None:
    return _joined(dict.fromkeys(items))


def _settings(values: Mapping[str, Any]) -> str:
    """Names and JSON values on one line: `stride=[1,1] groups=1`."""
    return " ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in values.items())
