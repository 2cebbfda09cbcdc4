"""Which spans are calls of modules, and what the modules are called."""

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
"""What the model itself is called, whose path is empty."""
NN_MODULE = "nn.Module: "
OPTIMIZER = "Optimizer."


@dataclass
class Modules:
    """The calls of modules among host spans; layers are numbered in the order of their first call."""

    origin: str
    """`labels`, `nn.Module`, `annotations` or nothing."""
    names: list[str]
    """Of layers."""
    layer_of_name: SmallInts
    """For each name of the columns its layer; -1 for what is no module."""
    places: Ints
    """Of the calls in the forest, parents before what is in them."""
    layer: SmallInts
    """Of each call."""
    parent: SmallInts
    """The call around each call, as an index into these; -1 where there is none."""
    owner: SmallInts
    """For every span of the forest the innermost call around it, as an index into these; -1 outside."""

    @cached_property
    def outermost(self) -> Flags:
        """The calls that lie in no call of the same layer."""
        found = np.ones(len(self.places), dtype=bool)
        around = self.parent.copy()
        inside = np.flatnonzero(around >= 0)
        while len(inside):
            found[inside] &= self.layer[around[inside]] != self.layer[inside]
            around[inside] = self.parent[around[inside]]
            inside = inside[around[inside] >= 0]
        return found

    def inclusive(self, own: Ints) -> Ints:
        """For each call its own value with those of the calls in it."""
        total: Ints = own.copy()
        # A call stands behind the one around it, so that children are complete before they are added.
        for call in np.flatnonzero(self.parent >= 0)[::-1].tolist():
            total[self.parent[call]] += total[call]
        return total


def facts_of(columns: Columns) -> TraceFacts | None:
    """What the capture said about itself, where it was ours."""
    text = columns.root.get(METADATA_KEY)
    return decode_facts(plain(text.encode(), quoted=True)) if text else None


def modules_of(columns: Columns, forest: Forest) -> Modules:
    """The calls of modules: by labels of ours, else as torch names modules, else user annotations."""
    origin, called = _named(columns)
    flags = np.array([name is not None for name in called], dtype=bool)
    places = np.flatnonzero(forest.flagged(flags)) if flags.any() else np.zeros(0, dtype=np.int64)
    nearest = forest.nearest(forest.flagged(flags)) if len(places) else np.full(forest.size, -1, dtype=np.int32)
    call_at = np.full(forest.size + 1, -1, dtype=np.int32)
    call_at[places] = np.arange(len(places), dtype=np.int32)
    above = forest.parent[places]
    names, layer_of_name = _layers(called, forest.name[places])
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
    """What modules are told by, and for each name of the columns the module's; None for what is none."""
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


def _layers(called: list[str | None], used: SmallInts) -> tuple[list[str], SmallInts]:
    """Layers in the order of their first call, and the layer of each name."""
    layers: dict[str, int] = {}
    found = np.full(len(called) + 1, -1, dtype=np.int32)
    distinct, first = np.unique(used, return_index=True)
    for name in distinct[np.argsort(first)].tolist():
        found[name] = layers.setdefault(called[name] or "", len(layers))
    return list(layers), found
