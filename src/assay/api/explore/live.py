"""A live model, or an object that holds several, as something to explore; nothing of it runs and nothing changes."""

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
    """What there is to see of a model in memory; `document` where a pass of it has been recorded already."""
    model, holder = opened.module, opened.model.holder
    shown = model if holder is None else holder
    inspector = LiveInspector(shown)
    taken = inventory.take(model)
    if document is None:
        modules = taken.modules if holder is None else [_root(taken.modules[0], type(holder)), *taken.modules[1:]]
        document = Document(
            origin=opened.origin, machine=this_machine(), run=Run("none"), modules=modules, tensors=taken.tensors
        )
    document = _with_recorded(document, shown, inspector)
    places = {name: str(tensor.device) for row, tensor in zip(taken.tensors, taken.live_tensors, strict=False)
              for name in row.names}  # fmt: skip
    devices = tuple(places.get(row.names[0]) for row in document.tensors)
    return ExploredModel(document, inspector, devices)


def _root(row: Any, named: type) -> Any:
    """The row of the holder itself, under its own class."""
    return replace(row, class_name=named.__name__, class_path=f"{named.__module__}.{named.__qualname__}")


def _with_recorded(document: Document, holder: object, inspector: LiveInspector) -> Document:
    """The document with the calls and times that were recorded, where it has none of its own."""
    timing: Timing | None = document.timing or timing_of(holder, document.modules)
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
