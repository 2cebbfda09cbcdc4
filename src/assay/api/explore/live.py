"""A live model, or an object that holds several, as something to explore; nothing of it runs and nothing changes."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from torch import nn

from assay.document.document import Document, Machine, Origin, Run
from assay.document.inspection import ForwardTensor
from assay.document.rows import Call, TensorType
from assay.document.timing import Timing
from assay.errors import UsageError
from assay.forward_stats import timing_of
from assay.forward_stats.reaching import roots
from assay.inspection import LiveEvidence
from assay.recorder import inventory
from assay.views.tui.subject import Subject


def live_subject(holder: object, document: Document | None = None, origin: Origin | None = None) -> Subject:
    """What there is to see of `holder`; `document` where a pass of it has been watched already."""
    model = gathered(holder)
    evidence = LiveEvidence(holder)
    taken = inventory.take(model)
    if document is None:
        named = type(holder)
        modules = [_root(taken.modules[0], named), *taken.modules[1:]] if model is not holder else taken.modules
        where = origin or Origin("live", f"{named.__module__}.{named.__qualname__}", named.__name__)
        machine = Machine(platform.python_version(), system=f"{platform.system()} {platform.machine()}")
        document = Document(origin=where, machine=machine, run=Run("none"), modules=modules, tensors=taken.tensors)
    document = _with_recorded(document, holder, evidence)
    places = {name: str(tensor.device) for row, tensor in zip(taken.tensors, taken.live_tensors, strict=False)
              for name in row.names}  # fmt: skip
    devices = tuple(places.get(row.names[0]) for row in document.tensors)
    return Subject(document, evidence, devices)


def gathered(holder: object) -> nn.Module:
    """The module itself, or one made for the occasion that holds all modules of `holder` by their paths."""
    if isinstance(holder, nn.Module):
        return holder
    found = roots(holder)
    if not found:
        raise UsageError(f"a {type(holder).__name__} was given that holds no torch.nn.Module: nothing to explore")
    outer = nn.Module()
    # Straight into the dictionary: add_module refuses dots, and none of the modules may notice.
    outer._modules.update(found)
    return outer


def _root(row: Any, named: type) -> Any:
    """The row of the holder itself, under its own class."""
    return replace(row, class_name=named.__name__, class_path=f"{named.__module__}.{named.__qualname__}")


def _with_recorded(document: Document, holder: object, evidence: LiveEvidence) -> Document:
    """The document with the calls and times that were recorded, where it has none of its own."""
    timing: Timing | None = document.timing or timing_of(holder, document.modules)
    if timing is None:
        return document
    calls = document.calls or [
        Call(at, None, _types(call.inputs), _types(call.outputs))
        for at, row in enumerate(document.modules)
        if timing.modules[at] is not None
        for call in evidence.forward_calls(row.path)
    ]
    return replace(document, timing=timing, calls=calls)


def _types(tensors: Sequence[ForwardTensor]) -> tuple[TensorType, ...]:
    return tuple(TensorType(each.facts.shape, each.facts.dtype) for each in tensors)
