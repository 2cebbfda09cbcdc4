"""Checkpoints in the explorer: the tensors as a tree, with the statistics of a tensor computed on demand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from assay.analysis.combined_statistics import combined
from assay.analysis.parameters import elements
from assay.api.weights.source import TensorSource, tensors_of
from assay.checkpoint.entries import Entry
from assay.checkpoint.statistics.run import statistics
from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.document.document import Document, Origin
from assay.document.inspection import TensorDetail, TensorFacts
from assay.document.rows import Module, Tensor, TensorType
from assay.document.this_machine import this_machine
from assay.document.weights import TensorStatistics
from assay.document.weights_fit import WeightsFit
from assay.sources.opened import Opened
from assay.views.tui.subject import (
    DocumentInspector,
    ExploredModel,
    ModuleInspector,
    absence_of,
    detail_of,
    tensor_facts,
)

_SETTINGS = StatisticsSettings(workers=1)


def checkpoint_subject(opened: Opened) -> ExploredModel:
    """An explorable tree of the stored tensors of an opened source; only headers are read."""
    stored = tensors_of(opened)
    checkpoint = stored.checkpoint
    file = Origin("file", checkpoint.path, os.path.basename(checkpoint.path.rstrip("/\\")))
    empty = Document(origin=opened.origin if stored.in_memory else file, machine=this_machine())
    document = _with_tree(empty, checkpoint.entries, {row.path: row.class_path for row in checkpoint.modules})
    inspector = StoredInspector(DocumentInspector(document), stored, document)
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
    tensors = [Tensor(row.names, row.role, TensorType(row.shape, row.dtype), row.bytes) for row in rows]
    return replace(document, modules=modules_of([row.names for row in tensors], classes), tensors=tensors)


class StoredInspector:
    """An inspector for tensors in files or a state dict; a tensor's bytes are read when it is inspected.

    `document` holds the model, whose names the stored tensors may have or not (`weights_fit`).
    """

    def __init__(self, model: ModuleInspector, stored: TensorSource, document: Document) -> None:
        self.source, self.attributes, self.forward_calls = model.source, model.attributes, model.forward_calls
        self._model = model
        self._read = stored.read
        self._entries = {name: entry for entry in stored.checkpoint.entries for name in entry.names}
        self._tensors = {name: tensor for tensor in document.tensors for name in tensor.names}
        self._fit = document.weights_fit or WeightsFit("")

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The statistics of the stored tensor, or the model's own details if the files do not contain it."""
        full = f"{path}.{name}" if path else name
        tensor = self._tensors.get(full)
        absence = "" if tensor is None else absence_of(tensor, self._fit)
        entries = [] if absence else self._stored(full, tensor)
        if not entries:
            detail = self._model.tensor(path, name)
            return replace(detail, problem=absence) if absence else detail
        if tensor is None or (len(entries) == 1 and not self._is_part(tensor, entries[0])):
            return self._detail(entries[0])
        whole = combined(statistics(entries, self._read, _SETTINGS), tensor.names, tensor.type.shape)
        facts, names = tensor_facts(tensor), ", ".join(entry.names[0] for entry in entries)
        return detail_of(whole, facts) if whole is not None else TensorDetail(facts, problem=f"stored as {names}")

    def _detail(self, entry: Entry) -> TensorDetail:
        (row,) = statistics([entry], self._read, _SETTINGS)
        return detail_of(row, TensorFacts(entry.shape, entry.dtype, bytes=entry.bytes))

    def _stored(self, full: str, tensor: Tensor | None) -> list[Entry]:
        """The entries of a tensor of the model, or of a stored one that the model lacks; none if it is missing."""
        names = (full,) if tensor is None else (full, *tensor.names)
        own = [self._entries[name] for name in names if name in self._entries]
        others = () if tensor is None else self._fit.stored_as.get(tensor.names[0], ())
        entries = own[:1] or [self._entries[name] for name in others]
        copies = [entry for entry in entries if tensor is not None and not self._is_part(tensor, entry)]
        return copies[:1] or entries

    def _is_part(self, tensor: Tensor, entry: Entry) -> bool:
        """Whether the entry of another name holds a part of the tensor, or more than it."""
        return tensor.names[0] in self._fit.stored_as and prod(entry.shape) != elements(tensor.type)


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
