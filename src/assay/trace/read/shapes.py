"""Input shapes as text, from the lists stored in traces."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from assay.document.trace_labels import TraceFacts
from assay.trace.read.categories import Role
from assay.trace.read.columns import Columns, SmallInts
from assay.trace.read.modules import MODEL, Modules
from assay.trace.read.nesting import Forest

_MOST = 8
"""The maximum number of distinct shapes kept per layer."""


def layer_shapes(
    columns: Columns, forest: Forest, modules: Modules, facts: TraceFacts | None
) -> list[tuple[str, ...]]:
    """The distinct input shapes of each layer's calls, in order of first appearance."""
    recorded = columns["shape"][forest.rows[modules.places]]
    layers, texts_by_layer = modules.layer, [dict[str, None]() for _ in modules.names]
    if not (recorded >= 0).any() and modules.origin != "labels":
        layers, recorded = _first_operations(columns, forest, modules)
    pairs = np.unique(np.stack([layers[recorded >= 0], recorded[recorded >= 0]], axis=1), axis=0)
    for layer, shape in pairs.tolist():
        text = shape_text(columns.shapes[shape])
        if text:
            texts_by_layer[layer][text] = None
    _add_facts(texts_by_layer, modules.names, facts)
    return [tuple(texts)[:_MOST] for texts in texts_by_layer]


def _first_operations(columns: Columns, forest: Forest, modules: Modules) -> tuple[SmallInts, SmallInts]:
    """Layers and input shapes of the first op in each call, for traces whose module calls have no shapes."""
    shape = columns["shape"][forest.rows]
    operations = np.flatnonzero((shape >= 0) & (modules.owner >= 0) & (columns.roles == Role.OP)[forest.name])
    calls, first = np.unique(modules.owner[operations], return_index=True)
    return modules.layer[calls], shape[operations[first]]


def _add_facts(texts_by_layer: list[dict[str, None]], names: list[str], facts: TraceFacts | None) -> None:
    """Add the shapes that Assay's own capture stored in the trace."""
    if facts is None:
        return
    texts = [_text(shapes) for shapes in facts.shapes]
    rows = dict(zip(names, texts_by_layer, strict=True))
    for module in facts.modules:
        row = rows.get(module.path or MODEL)
        for index in dict.fromkeys(module.shapes):
            if row is not None and 0 <= index < len(texts) and texts[index]:
                row[texts[index]] = None


@lru_cache(maxsize=4096)
def shape_text(raw: bytes) -> str:
    """`[[8, 16], [], [4]]` as `(8, 16), (4,)`; empty if it is not a list of shapes."""
    try:
        return _text(msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _text(shapes: Any) -> str:
    """The shapes of tensors as text; scalars are omitted."""
    if not isinstance(shapes, list | tuple):
        return ""
    return ", ".join(str(_tuple(shape)) for shape in shapes if isinstance(shape, list | tuple) and len(shape))


def _tuple(shape: Any) -> tuple[Any, ...]:
    return tuple(_tuple(each) if isinstance(each, list | tuple) else each for each in shape)
