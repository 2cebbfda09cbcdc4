"""Live models, or objects that hold several, in the explorer; the model is neither run nor changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from assay.document.document import Document, Run
from assay.document.inspection import ForwardTensor
from assay.document.rows import Call, TensorType
from assay.document.this_machine import this_machine
from assay.document.timing import Timing
from assay.forward_stats import timing_of
from assay.inspection import LiveInspector
from assay.recorder import inventory
from assay.sources.opened import Opened
from assay.views.tui.subject import ExploredModel


def live_subject(opened: Opened, document: Document | None = None) -> ExploredModel:
    """The model in memory, ready to explore; `document` is a recorded pass of it, if there is one."""
    model, holder = opened.module, opened.model.holder
    explored = model if holder is None else holder
    inspector = LiveInspector(explored)
    contents = inventory.take_inventory(model)
    if document is None:
        rows = contents.modules
        modules = rows if holder is None else [_holder_row(rows[0], type(holder)), *rows[1:]]
        document = Document(
            origin=opened.origin, machine=this_machine(), run=Run("none"), modules=modules, tensors=contents.tensors
        )
    document = _with_forward_stats(document, explored, inspector)
    by_name = {name: str(tensor.device) for row, tensor in zip(contents.tensors, contents.live_tensors, strict=False)
               for name in row.names}  # fmt: skip
    devices = tuple(by_name.get(row.names[0]) for row in document.tensors)
    return ExploredModel(document, inspector, devices)


def _holder_row(row: Any, holder_class: type) -> Any:
    """The root row with the class of the object that holds the modules."""
    path = f"{holder_class.__module__}.{holder_class.__qualname__}"
    return replace(row, class_name=holder_class.__name__, class_path=path)


def _with_forward_stats(document: Document, explored: object, inspector: LiveInspector) -> Document:
    """The document with calls and times from recorded forward statistics, unless it has its own."""
    timing: Timing | None = document.timing or timing_of(explored, document.modules)
    if timing is None:
        return document
    calls = document.calls or [
        Call(at, None, _types(call.inputs), _types(call.outputs))
        for at, row in enumerate(document.modules)
        if timing.modules[at] is not None
        for call in inspector.forward_calls(row.path)
    ]
    return replace(document, timing=timing, calls=calls)


def _types(tensors: Sequence[ForwardTensor]) -> tuple[TensorType, ...]:
    return tuple(TensorType(each.facts.shape, each.facts.dtype) for each in tensors)
