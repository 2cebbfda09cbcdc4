"""Which modules took part in the recorded pass, and the share that did."""

from __future__ import annotations

from msgspec import Struct

from assay.analysis.flow import is_view
from assay.analysis.parameters import tensor_storages
from assay.document.document import Document
from assay.document.roles import PARAMETER
from assay.document.tree import path_text, with_ancestors


class ModulesRun(Struct, frozen=True):
    """How many of the modules with parameters of their own ran; those of which it is unknown are not counted."""

    ran: int
    of: int
    not_run: tuple[str, ...]
    """The topmost modules of which nothing ran."""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.ran / self.of


def modules_run(document: Document) -> ModulesRun | None:
    """How much of the model ran; None if no pass was recorded or the model has no parameters."""
    ran = which_ran(document)
    owners = _owners(document)
    known = [ran[index] for index in owners if ran[index] is not None]
    if not known:
        return None
    above = with_ancestors(document.modules, owners)
    idle = {index for index in above if ran[index] is False}
    topmost = sorted(index for index in idle if document.modules[index].parent not in idle)
    return ModulesRun(
        known.count(True), len(known), tuple(path_text(document.modules[index].path) for index in topmost)
    )


def which_ran(document: Document) -> list[bool | None]:
    """For each module, whether it or a submodule ran; None if unknown.

    A module ran if it was called or an op read one of its parameters, as with `F.linear(x, self.proj.weight)`. Packed
    weights of a quantized module ran with it.
    """
    if not document.calls and not document.ops:
        return [None] * len(document.modules)
    used = _owners_of_read_parameters(document)
    called = {call.module for call in document.calls}
    packed = {i for i, module in enumerate(document.modules) if module.quantized and module.parent in called}
    ran = with_ancestors(document.modules, called | packed | (used or set()))
    hidden = _hidden(document, ran)
    if used is None:
        hidden |= set(_owners(document)) - ran
    unknown = with_ancestors(document.modules, hidden) - ran
    return [True if index in ran else None if index in unknown else False for index in range(len(document.modules))]


def _hidden(document: Document, ran: set[int]) -> set[int]:
    """The modules inside TorchScript modules that ran without a record of the calls inside them."""
    called = with_ancestors(document.modules, (call.module for call in document.calls))
    recorded = {document.modules[index].parent for index in called}
    hidden: set[int] = set()
    for index, module in enumerate(document.modules):
        parent = module.parent
        if parent is None or parent in recorded or not document.modules[parent].scripted:
            continue
        if parent in ran or parent in hidden:
            hidden.add(index)
    return hidden - ran


def _owners(document: Document) -> list[int]:
    """The modules with parameters of their own."""
    tensors = document.tensors
    return [
        index
        for index, module in enumerate(document.modules)
        if any(tensors[tensor].role == PARAMETER for tensor in module.tensors.values())
    ]


def _owners_of_read_parameters(document: Document) -> set[int] | None:
    """The modules with a parameter that an op reads; None if the document does not record what ops read."""
    views = {index for index, kind in enumerate(document.kinds) if is_view(kind)}
    read = {storage for op in document.ops if op.kind not in views for storage in op.reads}
    storages = tensor_storages(document)
    if (document.ops and not read) or (document.tensors and not storages):
        return None
    return {
        index
        for index in _owners(document)
        if any(storages[tensor] in read for tensor in document.modules[index].tensors.values())
    }
