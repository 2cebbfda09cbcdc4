"""The spans that are module calls, and the names of those modules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assay.document.trace_labels import METADATA_KEY, TraceFacts, decode_facts, decode_path
from assay.trace.read.categories import Role
from assay.trace.read.columns import Columns, Flags, Ints, SmallInts
from assay.trace.read.nesting import Forest, looked_up
from assay.trace.read.texts import plain

MODEL = "(model)"
"""The displayed name of the model itself, whose path is empty."""
NN_MODULE = "nn.Module: "
OPTIMIZER = "Optimizer."


@dataclass
class Modules:
    """The module calls among the host spans; layers are numbered in the order of their first calls."""

    origin: str
    """How modules were recognised: `labels`, `nn.Module`, `annotations` or empty."""
    names: list[str]
    """The names of the layers."""
    layer_of_name: SmallInts
    """The layer of each name of the columns; -1 if the name is not a module's."""
    places: Ints
    """The index of each call in the forest, parents before children."""
    layer: SmallInts
    """The layer of each call."""
    parent: SmallInts
    """The enclosing call of each call, as an index into `places`; -1 if none."""
    owner: SmallInts
    """The innermost call around each span of the forest, as an index into `places`; -1 outside all calls."""

    @cached_property
    def outermost(self) -> Flags:
        """The calls that are not nested in a call of the same layer."""
        flags = np.ones(len(self.places), dtype=bool)
        around = self.parent.copy()
        inside = np.flatnonzero(around >= 0)
        while len(inside):
            flags[inside] &= self.layer[around[inside]] != self.layer[inside]
            around[inside] = self.parent[around[inside]]
            inside = inside[around[inside] >= 0]
        return flags

    def inclusive(self, own: Ints) -> Ints:
        """Per call, its own value plus those of all calls nested in it."""
        total: Ints = own.copy()
        # Parents come before children, so in reverse order every child is complete before it is added.
        for call in np.flatnonzero(self.parent >= 0)[::-1].tolist():
            total[self.parent[call]] += total[call]
        return total


def facts_of(columns: Columns) -> TraceFacts | None:
    """The metadata that Assay's own capture stored in the trace; None for other traces."""
    text = columns.root.get(METADATA_KEY)
    return decode_facts(plain(text.encode(), quoted=True)) if text else None


def modules_of(columns: Columns, forest: Forest) -> Modules:
    """The module calls: by Assay's labels, else by torch's module names, else by user annotations."""
    origin, module_names = _named(columns)
    flags = np.array([name is not None for name in module_names], dtype=bool)
    places = np.flatnonzero(forest.flagged(flags)) if flags.any() else np.zeros(0, dtype=np.int64)
    nearest = forest.nearest(forest.flagged(flags)) if len(places) else np.full(forest.size, -1, dtype=np.int32)
    call_at = np.full(forest.size + 1, -1, dtype=np.int32)
    call_at[places] = np.arange(len(places), dtype=np.int32)
    above = forest.parent[places]
    names, layer_of_name = _layers(module_names, forest.name[places])
    return Modules(
        origin=origin,
        names=names,
        layer_of_name=layer_of_name,
        places=places,
        layer=layer_of_name[forest.name[places]],
        parent=call_at[looked_up(nearest, above, -1)],
        owner=call_at[nearest],
    )


def _named(columns: Columns) -> tuple[str, list[str | None]]:
    """How modules are recognised, and per name of the columns the module's name (None if it is not a module)."""
    labels = [decode_path(name) for name in columns.names]
    if any(label is not None for label in labels):
        return "labels", [MODEL if label == "" else label for label in labels]
    modules = [name if name.startswith(NN_MODULE) else None for name in columns.names]
    if any(modules):
        return "nn.Module", modules
    annotations = [
        name if role == Role.ANNOTATION and not name.startswith(OPTIMIZER) else None
        for name, role in zip(columns.names, columns.roles.tolist(), strict=True)
    ]
    return ("annotations", annotations) if any(annotations) else ("", annotations)


def _layers(module_names: list[str | None], used: SmallInts) -> tuple[list[str], SmallInts]:
    """Layers in the order of their first calls, and the layer of each name."""
    layers: dict[str, int] = {}
    layer_of_name = np.full(len(module_names) + 1, -1, dtype=np.int32)
    distinct, first = np.unique(used, return_index=True)
    for name in distinct[np.argsort(first)].tolist():
        layer_of_name[name] = layers.setdefault(module_names[name] or "", len(layers))
    return list(layers), layer_of_name
