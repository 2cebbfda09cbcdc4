"""`parse_model_trace`: a trace as a dictionary of layers, for scripts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from assay.document.trace import LayerTimes
from assay.errors import ReadError
from assay.trace.read.categories import Role
from assay.trace.read.columns import Ints, SmallInts
from assay.trace.read.layers import TraceContents, layer_rows
from assay.trace.read.nesting import added, looked_up
from assay.trace.read.reading import open_trace
from assay.trace.read.shapes import shape_text
from assay.trace.read.stacks import frames

_PER_US = 1000


def parse_model_trace(trace_file: str | os.PathLike[str], model_name: str = "Unknown") -> dict[str, Any] | None:
    """Time, calls, shapes and ops of each layer in a trace file.

    A layer's `total_time_us` is its self time: the time of its submodules is in their own rows, so that rows add up.

    Args:
        trace_file: The path of the trace, plain JSON or gzip.
        model_name: The model name to report; by default the one stored in the trace.

    Returns:
        A dictionary with `model_name`, `trace_file` and `layer_stats`, or None if the file cannot be read or contains
        no trace. `layer_stats` maps each layer to its `total_time_us`, `call_count`, `shapes` and `operations`.

    Raises:
        UsageError: `trace_file` is not a path.
    """
    try:
        parts = open_trace(trace_file)
    except ReadError:
        return None
    stats = {row.name: _layer(row) for row in layer_rows(parts)} if parts.modules.names else _operations(parts)
    name = parts.facts.model_name if parts.facts and model_name == "Unknown" else model_name
    return {"model_name": name, "trace_file": os.fspath(trace_file), "layer_stats": stats}


def _layer(row: LayerTimes) -> dict[str, Any]:
    return {
        "total_time_us": round(row.cpu_self_ns / _PER_US),
        "call_count": row.calls,
        "shapes": set(row.shapes),
        "operations": set(row.ops),
    }


def _operations(parts: TraceContents) -> dict[str, dict[str, Any]]:
    """Rows for a trace without modules: per calling frame of the outermost ops, or per op if there are no frames."""
    columns, forest = parts.columns, parts.forest
    is_op = forest.flagged(columns.roles == Role.OP)
    outermost = is_op & (looked_up(forest.nearest(is_op), forest.parent, -1) < 0)
    places = np.flatnonzero(outermost)
    names: dict[str, int] = {}
    texts = dict(zip(columns["stack_row"].tolist(), columns["stack_text"].tolist(), strict=True))
    callers = {text: (frames(columns.stacks[text]) or [""])[0] for text in set(texts.values())}
    group = np.full(forest.size + 1, -1, dtype=np.int64)
    for place, row, name in zip(
        places.tolist(), forest.rows[places].tolist(), forest.name[places].tolist(), strict=True
    ):
        caller = callers.get(texts.get(row, -1)) or columns.names[name]
        group[place] = names.setdefault(caller, len(names))
    total = added(group[places], forest.duration[places], len(names)).tolist()
    calls = np.bincount(group[places], minlength=len(names)).tolist()
    shapes = _distinct(group[places], columns["shape"][forest.rows[places]], len(names))
    inside = np.flatnonzero(is_op)
    operations = _distinct(group[forest.nearest(outermost)[inside]], forest.name[inside], len(names))
    return {
        name: {
            "total_time_us": round(total[i] / _PER_US),
            "call_count": calls[i],
            "shapes": {text for shape in shapes[i] if (text := shape_text(columns.shapes[shape]))},
            "operations": {columns.names[each] for each in operations[i]},
        }
        for name, i in names.items()
    }


def _distinct(group: Ints, value: SmallInts, count: int) -> list[set[int]]:
    """The distinct values of each group; negative values mean "no value" and are skipped."""
    sets: list[set[int]] = [set() for _ in range(count)]
    chosen = (group >= 0) & (value >= 0)
    for each, other in np.unique(np.stack([group[chosen], value[chosen]], axis=1), axis=0).tolist():
        sets[each].add(other)
    return sets
