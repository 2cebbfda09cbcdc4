"""The explored model: a document, and an inspector for source code, values and calls that are not in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from assay.analysis.combined_statistics import statistics_by_name
from assay.document.document import Document
from assay.document.inspection import Attribute, ForwardCall, ForwardTensor, SourceCode, TensorDetail, TensorFacts
from assay.document.roles import BUFFER, PARAMETER
from assay.document.rows import Tensor, TensorType
from assay.document.weights import TensorStatistics
from assay.document.weights_fit import WeightsFit
from assay.errors import ReadError

MISSING = "not in the files: a loader initialises it"
UNREAD = "not read: files are missing or damaged"
NO_VALUES = "a saved document contains no tensor values: explore the live model or its checkpoint"


ONLY_WEIGHTS = "Only weights are shown: open the model to record ops and times."


class ModuleInspector(Protocol):
    """Looks up details of modules by path. Called from a background thread; may raise `AssayError`."""

    def source(self, path: str) -> SourceCode | None:
        """The source code of the module's class; None if there is none."""

    def attributes(self, path: str) -> list[Attribute]:
        """All attributes of the module."""

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The statistics of one of the module's tensors."""

    def forward_calls(self, path: str) -> list[ForwardCall]:
        """All recorded calls of the module, newest last."""


class ExploredModel(Struct, frozen=True):
    """A model to explore."""

    document: Document
    inspector: ModuleInspector
    devices: Sequence[str | None] = ()
    """The device of each of the document's tensors, in order; empty if unknown."""
    tensors_in_tree: bool = False
    """Whether the source contains only tensors, which are then rows of the tree, as for a checkpoint."""
    notes: tuple[str, ...] = ()
    """Messages shown when the explorer opens."""
    no_findings: str = "Not checked: no rules have run."
    """The sentence shown if there are no findings, with the reason."""


class DocumentInspector:
    """An inspector of a saved document: configuration, dtypes and shapes, and statistics if they were saved."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._modules = {module.path: index for index, module in enumerate(document.modules)}
        rows = document.weights.tensors if document.weights else []
        self._statistics = {name: row for row in rows for name in row.names} | statistics_by_name(document)

    def source(self, path: str) -> SourceCode | None:
        """None: a document contains no source code."""
        return None

    def attributes(self, path: str) -> list[Attribute]:
        """The configuration and tensors of the module."""
        module = self._document.modules[self._index(path)]
        own = ((name, self._document.tensors[at]) for name, at in module.tensors.items())
        tensors = [Attribute(name, _kind(each), "Tensor", "", tensor_facts(each)) for name, each in own]
        configuration = [
            Attribute(name, "value", type(value).__name__, json.dumps(value, ensure_ascii=False, default=str))
            for name, value in module.config.items()
        ]
        return [*tensors, *configuration]

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The statistics of a tensor, if the document contains them."""
        at = self._document.modules[self._index(path)].tensors.get(name)
        if at is None:
            raise ReadError(f"{path or 'the root'} has no tensor {name}")
        tensor = self._document.tensors[at]
        statistics = next((self._statistics[each] for each in tensor.names if each in self._statistics), None)
        if statistics is None:
            absence = absence_of(tensor, self._document.weights_fit)
            return TensorDetail(tensor_facts(tensor), problem=absence or NO_VALUES)
        return detail_of(statistics, tensor_facts(tensor))

    def forward_calls(self, path: str) -> list[ForwardCall]:
        """The recorded calls, with the shapes and dtypes of their tensors."""
        index = self._index(path)
        return [
            ForwardCall(inputs=_tensors("in", call.inputs), outputs=_tensors("out", call.outputs))
            for call in self._document.calls
            if call.module == index
        ]

    def _index(self, path: str) -> int:
        if path not in self._modules:
            raise ReadError(f"the document has no module {path}")
        return self._modules[path]


def of_document(document: Document) -> ExploredModel:
    """A saved document as a model to explore."""
    return ExploredModel(document, DocumentInspector(document))


def _kind(tensor: Tensor) -> str:
    """The heading under which a tensor is listed; `tensor` if its role is unknown or it has none in a module."""
    return tensor.role if tensor.role in (PARAMETER, BUFFER) else "tensor"


def tensor_facts(tensor: Tensor) -> TensorFacts:
    """Shape, dtype, size and gradient of a document's tensor."""
    facts = tensor.type
    return TensorFacts(facts.shape, facts.dtype, bytes=tensor.bytes, requires_grad=tensor.requires_grad)


def absence_of(tensor: Tensor, fit: WeightsFit | None) -> str:
    """Why the files have no values of a tensor; empty if they have, or if there are no files."""
    if fit is None:
        return ""
    return MISSING if tensor.names[0] in fit.missing else UNREAD if tensor.names[0] in fit.unread else ""


def detail_of(row: TensorStatistics, facts: TensorFacts) -> TensorDetail:
    """Statistics of a checkpoint's tensor in the form that panels show."""
    histogram = row.histogram
    edges: list[float] = []
    if histogram is not None:
        step = (histogram.high - histogram.low) / len(histogram.counts)
        edges = [*(histogram.low + step * bin for bin in range(len(histogram.counts))), histogram.high]
    return TensorDetail(
        facts,
        row.min,
        row.max,
        row.mean,
        row.std,
        row.nan,
        row.inf,
        row.zeros,
        histogram.counts if histogram is not None else (),
        tuple(edges),
        problem=row.problem,
    )


def _tensors(side: str, types: Sequence[TensorType]) -> tuple[ForwardTensor, ...]:
    facts = [TensorFacts(type.shape, type.dtype) for type in types]
    return tuple(ForwardTensor(f"{side}[{index}]", each) for index, each in enumerate(facts))
