"""A checkpoint as something to explore: its tensors as a tree, their values looked at one by one, on demand."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec.structs import replace

from assay.checkpoint.entries import Entry
from assay.checkpoint.reading import RangeReader
from assay.checkpoint.statistics.run import statistics
from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.document.document import Document, Origin
from assay.document.inspection import TensorDetail, TensorFacts
from assay.document.rows import Module, Tensor, TensorType
from assay.document.this_machine import this_machine
from assay.document.weights import TensorStatistics
from assay.sources.opened import Opened
from assay.views.tui.subject import DocumentInspector, ExploredModel, ModuleInspector, detail_of

_SETTINGS = StatisticsSettings(workers=1)


def checkpoint_subject(opened: Opened) -> ExploredModel:
    """The stored tensors of what was opened; only headers are read."""
    checkpoint = opened.checkpoint
    assert checkpoint is not None
    plain = Document(
        origin=Origin("file", checkpoint.path, os.path.basename(checkpoint.path.rstrip("/\\"))),
        machine=this_machine(),
    )
    document = _with_tree(plain, checkpoint.entries, {row.path: row.class_path for row in checkpoint.modules})
    inspector = StoredInspector(DocumentInspector(document), opened)
    return ExploredModel(document, inspector, tensors_in_tree=True, notes=(*checkpoint.notes, *checkpoint.failures))


def weights_subject(document: Document) -> ExploredModel:
    """A saved document that holds statistics of a checkpoint's tensors, and no model."""
    rows = document.weights.tensors if document.weights is not None else []
    whole = _with_tree(document, rows, {module.path: module.class_path for module in document.modules})
    return ExploredModel(whole, DocumentInspector(whole), tensors_in_tree=True)


def _with_tree(
    document: Document, rows: Sequence[Entry] | Sequence[TensorStatistics], classes: dict[str, str]
) -> Document:
    """The document with these tensors, and a tree of modules made from their names."""
    tensors = [Tensor(row.names, "parameter", TensorType(row.shape, row.dtype), row.bytes) for row in rows]
    return replace(document, modules=modules_of([row.names for row in tensors], classes), tensors=tensors)


class StoredInspector:
    """A model whose tensors are in files: the bytes of one are read when it is looked at."""

    def __init__(self, model: ModuleInspector, opened: Opened) -> None:
        self.source, self.attributes, self.forward_calls = model.source, model.attributes, model.forward_calls
        self._model = model
        self._reader = RangeReader(opened.files)
        entries = opened.checkpoint.entries if opened.checkpoint is not None else []
        self._entries = {name: entry for entry in entries for name in entry.names}

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The exact statistics of the stored tensor; what the model itself knows where the files have none."""
        entry = self._stored(f"{path}.{name}" if path else name)
        if entry is None:
            return self._model.tensor(path, name)
        (row,) = statistics([entry], self._reader, _SETTINGS)
        return detail_of(row, TensorFacts(entry.shape, entry.dtype, bytes=entry.bytes))

    def _stored(self, name: str) -> Entry | None:
        """The entry of a tensor; files of a model's trunk leave out the first part of its names, or add one."""
        if name in self._entries:
            return self._entries[name]
        trunk = name.partition(".")[2]
        if trunk in self._entries:
            return self._entries[trunk]
        longer = [entry for each, entry in self._entries.items() if each.partition(".")[2] == name]
        return longer[0] if len(longer) == 1 else None


def modules_of(names: Sequence[tuple[str, ...]], classes: dict[str, str]) -> list[Module]:
    """A module for every prefix of a name, with the tensors right below it; classes where they are known."""
    places: dict[str, int] = {"": 0}
    parents: list[int | None] = [None]
    held: list[dict[str, int]] = [{}]
    for at, each in enumerate(names):
        for name in each:
            prefix, _, local = name.rpartition(".")
            held[_place(prefix, places, parents, held)][local] = at
    paths = list(places)
    return [
        Module(path, classes.get(path, "").rpartition(".")[2], classes.get(path, ""), parent, tensors=own)
        for path, parent, own in zip(paths, parents, held, strict=True)
    ]


def _place(prefix: str, places: dict[str, int], parents: list[int | None], held: list[dict[str, int]]) -> int:
    """The row of a prefix, made with those above it where there is none."""
    missing = []
    while prefix not in places:
        missing.append(prefix)
        prefix = prefix.rpartition(".")[0]
    above = places[prefix]
    for path in reversed(missing):
        places[path] = len(parents)
        parents.append(above)
        held.append({})
        above = places[path]
    return above
