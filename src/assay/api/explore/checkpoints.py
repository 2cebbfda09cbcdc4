"""Checkpoints in the explorer: the tensors as a tree, with the statistics of a tensor computed on demand."""

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
    """An explorable tree of the stored tensors of an opened source; only headers are read."""
    checkpoint = opened.checkpoint
    assert checkpoint is not None
    empty = Document(
        origin=Origin("file", checkpoint.path, os.path.basename(checkpoint.path.rstrip("/\\"))),
        machine=this_machine(),
    )
    document = _with_tree(empty, checkpoint.entries, {row.path: row.class_path for row in checkpoint.modules})
    inspector = StoredInspector(DocumentInspector(document), opened)
    return ExploredModel(document, inspector, tensors_in_tree=True, notes=(*checkpoint.notes, *checkpoint.failures))


def weights_subject(document: Document) -> ExploredModel:
    """An explorable tree of a saved document that holds tensor statistics and no model."""
    rows = document.weights.tensors if document.weights is not None else []
    with_tree = _with_tree(document, rows, {module.path: module.class_path for module in document.modules})
    return ExploredModel(with_tree, DocumentInspector(with_tree), tensors_in_tree=True)


def _with_tree(
    document: Document, rows: Sequence[Entry] | Sequence[TensorStatistics], classes: dict[str, str]
) -> Document:
    """The document with these tensors, and a module tree derived from their names."""
    tensors = [Tensor(row.names, "parameter", TensorType(row.shape, row.dtype), row.bytes) for row in rows]
    return replace(document, modules=modules_of([row.names for row in tensors], classes), tensors=tensors)


class StoredInspector:
    """An inspector for tensors stored in files; a tensor's bytes are read when it is inspected."""

    def __init__(self, model: ModuleInspector, opened: Opened) -> None:
        self.source, self.attributes, self.forward_calls = model.source, model.attributes, model.forward_calls
        self._model = model
        self._reader = RangeReader(opened.files)
        entries = opened.checkpoint.entries if opened.checkpoint is not None else []
        self._entries = {name: entry for entry in entries for name in entry.names}

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The statistics of the stored tensor, or the model's own details if the files do not contain it."""
        entry = self._stored(f"{path}.{name}" if path else name)
        if entry is None:
            return self._model.tensor(path, name)
        (row,) = statistics([entry], self._reader, _SETTINGS)
        return detail_of(row, TensorFacts(entry.shape, entry.dtype, bytes=entry.bytes))

    def _stored(self, name: str) -> Entry | None:
        """The entry of a tensor, also if the file's names lack the first component or have an extra one."""
        if name in self._entries:
            return self._entries[name]
        trunk = name.partition(".")[2]
        if trunk in self._entries:
            return self._entries[trunk]
        longer = [entry for each, entry in self._entries.items() if each.partition(".")[2] == name]
        return longer[0] if len(longer) == 1 else None


def modules_of(names: Sequence[tuple[str, ...]], classes: dict[str, str]) -> list[Module]:
    """One module per prefix of a tensor name, with its direct tensors, and its class from `classes` if listed."""
    rows: dict[str, int] = {"": 0}
    parents: list[int | None] = [None]
    tensors: list[dict[str, int]] = [{}]
    for index, tensor_names in enumerate(names):
        for name in tensor_names:
            prefix, _, local = name.rpartition(".")
            tensors[_row_of(prefix, rows, parents, tensors)][local] = index
    return [
        Module(path, classes.get(path, "").rpartition(".")[2], classes.get(path, ""), parent, tensors=own)
        for path, parent, own in zip(rows, parents, tensors, strict=True)
    ]


def _row_of(prefix: str, rows: dict[str, int], parents: list[int | None], tensors: list[dict[str, int]]) -> int:
    """The row of a prefix; the row and missing rows above it are added if necessary."""
    missing = []
    while prefix not in rows:
        missing.append(prefix)
        prefix = prefix.rpartition(".")[0]
    parent = rows[prefix]
    for path in reversed(missing):
        rows[path] = len(parents)
        parents.append(parent)
        tensors.append({})
        parent = rows[path]
    return parent
