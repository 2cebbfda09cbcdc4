"""What is explored: a document, who is asked for what it does not hold, and the answers it can give itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from assay.document.document import Document
from assay.document.inspection import Attribute, ForwardCall, ForwardTensor, SourceCode, TensorDetail, TensorFacts
from assay.document.rows import Tensor, TensorType
from assay.document.weights import TensorStatistics
from assay.errors import ReadError

NO_VALUES = "a saved document keeps no values: explore the live model or its checkpoint"


class ModuleInspector(Protocol):
    """Looks into modules by path. Called from a thread of its own; may raise `AssayError`."""

    def source(self, path: str) -> SourceCode | None:
        """The source code of the module's class; None where there is none."""

    def attributes(self, path: str) -> list[Attribute]:
        """All attributes of the module."""

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The values of one of its tensors, summed up."""

    def forward_calls(self, path: str) -> list[ForwardCall]:
        """Every recorded call of the module, newest last."""


class ExploredModel(Struct, frozen=True):
    """A model to look at."""

    document: Document
    inspector: ModuleInspector
    devices: Sequence[str | None] = ()
    """Where each of the document's tensors is, in their order; empty where nobody knows."""
    tensors_in_tree: bool = False
    """Whether tensors are rows of the tree, as for a checkpoint."""
    notes: tuple[str, ...] = ()
    """Said once when the explorer opens."""
    no_findings: str = "no rules have run"
    """Why there are no findings, where there are none."""


class DocumentInspector:
    """What the document itself holds: settings, types and shapes, statistics where they were saved."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._modules = {module.path: index for index, module in enumerate(document.modules)}
        rows = document.weights.tensors if document.weights else []
        self._statistics = {name: row for row in rows for name in row.names}

    def source(self, path: str) -> SourceCode | None:
        """None: a document keeps no code."""
        return None

    def attributes(self, path: str) -> list[Attribute]:
        """The settings and tensors of the module."""
        module = self._document.modules[self._found(path)]
        own = ((name, self._document.tensors[at]) for name, at in module.tensors.items())
        tensors = [Attribute(name, each.role, "Tensor", "", tensor_facts(each)) for name, each in own]
        settings = [
            Attribute(name, "value", type(value).__name__, json.dumps(value, ensure_ascii=False, default=str))
            for name, value in module.config.items()
        ]
        return [*tensors, *settings]

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The tensor's statistics, where the document has them."""
        at = self._document.modules[self._found(path)].tensors.get(name)
        if at is None:
            raise ReadError(f"{path or 'the root'} has no tensor {name}")
        tensor = self._document.tensors[at]
        known = next((self._statistics[each] for each in tensor.names if each in self._statistics), None)
        if known is None:
            return TensorDetail(tensor_facts(tensor), problem=NO_VALUES)
        return detail_of(known, tensor_facts(tensor))

    def forward_calls(self, path: str) -> list[ForwardCall]:
        """The calls that were watched, with the types of their tensors."""
        index = self._found(path)
        return [
            ForwardCall(inputs=_tensors("in", call.inputs), outputs=_tensors("out", call.outputs))
            for call in self._document.calls
            if call.module == index
        ]

    def _found(self, path: str) -> int:
        if path not in self._modules:
            raise ReadError(f"the document has no module {path}")
        return self._modules[path]


def of_document(document: Document) -> ExploredModel:
    """A document alone."""
    return ExploredModel(document, DocumentInspector(document))


def tensor_facts(tensor: Tensor) -> TensorFacts:
    """A tensor of a document from outside."""
    facts = tensor.type
    return TensorFacts(facts.shape, facts.dtype, bytes=tensor.bytes, requires_grad=tensor.requires_grad)


def detail_of(row: TensorStatistics, facts: TensorFacts) -> TensorDetail:
    """Statistics of a checkpoint's tensor in the form that panels show."""
    drawn = row.histogram
    edges: list[float] = []
    if drawn is not None:
        step = (drawn.high - drawn.low) / len(drawn.counts)
        edges = [*(drawn.low + step * place for place in range(len(drawn.counts))), drawn.high]
    return TensorDetail(
        facts,
        row.min,
        row.max,
        row.mean,
        row.std,
        row.nan,
        row.inf,
        row.zeros,
        drawn.counts if drawn is not None else (),
        tuple(edges),
        problem=row.problem,
    )


def _tensors(side: str, types: Sequence[TensorType]) -> tuple[ForwardTensor, ...]:
    facts = [TensorFacts(type.shape, type.dtype) for type in types]
    return tuple(ForwardTensor(f"{side}[{place}]", each) for place, each in enumerate(facts))
