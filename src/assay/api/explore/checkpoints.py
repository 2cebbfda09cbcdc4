"""A checkpoint as something to explore: its tensors as a tree, their values looked at one by one, on demand."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

from assay.api.weights.source import SpanReader
from assay.checkpoint.entries import Checkpoint, Entry
from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.statistics.run import statistics
from assay.checkpoint.statistics.settings import Settings
from assay.document.document import Document, Machine, Origin, Run
from assay.document.inspection import TensorDetail
from assay.document.rows import Module, Tensor, TensorType
from assay.errors import ReadError
from assay.views.tui.evidence import DocumentEvidence, detail_of, tensor_facts
from assay.views.tui.subject import Subject

_SETTINGS = Settings(workers=1)


def checkpoint_subject(path: str) -> Subject:
    """The tensors of the checkpoint at `path`; only its headers are read."""
    checkpoint = open_checkpoint(path)
    entries = checkpoint.entries
    tensors = [
        Tensor(entry.names, "parameter", TensorType(entry.shape, entry.dtype), entry.bytes) for entry in entries
    ]
    document = Document(
        origin=Origin("file", checkpoint.path, os.path.basename(checkpoint.path.rstrip("/\\"))),
        machine=Machine(platform.python_version(), system=f"{platform.system()} {platform.machine()}"),
        run=Run("none"),
        modules=modules_of([tensor.names for tensor in tensors], _classes(checkpoint)),
        tensors=tensors,
    )
    evidence = CheckpointEvidence(document, entries)
    return Subject(document, evidence, tensors_in_tree=True, notes=(*checkpoint.notes, *checkpoint.failures))


def weights_subject(document: Document) -> Subject:
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
    return Subject(whole, DocumentEvidence(whole), tensors_in_tree=True)


class CheckpointEvidence(DocumentEvidence):
    """Reads one tensor's bytes when somebody looks at it."""

    def __init__(self, document: Document, entries: Sequence[Entry]) -> None:
        super().__init__(document)
        self._tensors = {name: at for at, entry in enumerate(entries) for name in entry.names}
        self._entries = entries
        self._held = document

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The exact statistics of one tensor."""
        full = f"{path}.{name}" if path else name
        at = self._tensors.get(full)
        if at is None:
            raise ReadError(f"the checkpoint has no tensor {full}")
        facts = tensor_facts(self._held.tensors[at])
        (row,) = statistics([self._entries[at]], SpanReader(), _SETTINGS, None, None)
        return detail_of(row, facts)


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
