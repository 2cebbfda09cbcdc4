"""A checkpoint as something to explore: its tensors as a tree, their values looked at one by one, on demand."""

from __future__ import annotations

import os
from collections.abc import Sequence

from assay.checkpoint.entries import Checkpoint, Entry
from assay.checkpoint.reading import RangeReader
from assay.checkpoint.statistics.run import statistics
from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.document.document import Document, Origin, Run
from assay.document.inspection import TensorDetail, TensorFacts
from assay.document.rows import Module, Tensor, TensorType
from assay.document.this_machine import this_machine
from assay.errors import ReadError
from assay.sources.opened import Opened
from assay.views.tui.inspectors import DocumentInspector, ModuleInspector, detail_of, tensor_facts
from assay.views.tui.subject import ExploredModel

_SETTINGS = StatisticsSettings(workers=1)


def checkpoint_subject(opened: Opened) -> ExploredModel:
    """The stored tensors of what was opened; only headers are read."""
    checkpoint = opened.checkpoint
    assert checkpoint is not None
    entries = checkpoint.entries
    tensors = [
        Tensor(entry.names, "parameter", TensorType(entry.shape, entry.dtype), entry.bytes) for entry in entries
    ]
    document = Document(
        origin=Origin("file", checkpoint.path, os.path.basename(checkpoint.path.rstrip("/\\"))),
        machine=this_machine(),
        run=Run("none"),
        modules=modules_of([tensor.names for tensor in tensors], _classes(checkpoint)),
        tensors=tensors,
    )
    inspector = CheckpointInspector(document, entries, RangeReader(opened.files))
    return ExploredModel(document, inspector, tensors_in_tree=True, notes=(*checkpoint.notes, *checkpoint.failures))


def weights_subject(document: Document) -> ExploredModel:
    """A saved document that holds statistics of a checkpoint's tensors, and no model."""
    rows = document.weights.tensors if document.weights is not None else []
    tensors = [Tensor(row.names, "parameter", TensorType(row.shape, row.dtype), row.bytes) for row in rows]
    classes = {module.path: module.class_path for module in document.modules}
    whole = Document(
        origin=document.origin,
        machine=document.machine,
        run=document.run,
        modules=modules_of([row.names for row in rows], classes),
        tensors=tensors,
        weights=document.weights,
        findings=document.findings,
    )
    return ExploredModel(whole, DocumentInspector(whole), tensors_in_tree=True)


class CheckpointInspector(DocumentInspector):
    """Reads one tensor's bytes when somebody looks at it."""

    def __init__(self, document: Document, entries: Sequence[Entry], reader: RangeReader) -> None:
        super().__init__(document)
        self._tensors = {name: at for at, entry in enumerate(entries) for name in entry.names}
        self._entries = entries
        self._held = document
        self._reader = reader

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The exact statistics of one tensor."""
        full = f"{path}.{name}" if path else name
        at = self._tensors.get(full)
        if at is None:
            raise ReadError(f"the checkpoint has no tensor {full}")
        facts = tensor_facts(self._held.tensors[at])
        (row,) = statistics([self._entries[at]], self._reader, _SETTINGS)
        return detail_of(row, facts)


class StoredInspector:
    """A model without weights in memory, with the values of its tensors read from its files on demand."""

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


def _classes(checkpoint: Checkpoint) -> dict[str, str]:
    return {row.path: row.class_path for row in checkpoint.modules}
