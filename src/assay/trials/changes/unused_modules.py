"""Removing modules that take no part in the pass."""

from __future__ import annotations

from typing import Any

from torch import nn

from assay.document.trials import EXACT
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import (
    RECORDED_PASS,
    RECORDED_PASS_IMPORTS,
    RecordedPass,
    dry_outputs,
    largest_error,
    require_modules,
)
from assay.trials.runnable import Runnable


def unused_children(model: Any, watched: Any) -> list[tuple[Any, str]]:
    """Parents and names of the outermost modules with weights of which nothing was called or read."""
    called = {id(call.module) for call in watched.calls}

    def used(module: Any) -> bool:
        tensors = [*module.parameters(), *module.buffers()]
        return any(id(each) in called for each in module.modules()) or any(watched.readers(each) for each in tensors)

    # Of a list, other inputs may use other entries: experts, early exits.
    lists = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
    parents = [module for module in model.modules() if used(module) and not isinstance(module, lists)]
    children = [(parent, name, child) for parent in parents for name, child in parent.named_children()]
    return [(parent, name) for parent, name, child in children if list(child.parameters()) and not used(child)]


def were_removed(runnable: Runnable, expected: Any, places: list[tuple[Any, str]]) -> bool:
    """Whether these modules could be deleted; if the model fails or gives other outputs then, they are put back."""
    saved = [(parent, dict(parent._modules)) for parent, _ in places]
    for parent, name in places:
        delattr(parent, name)
    try:
        same = largest_error(expected, dry_outputs(runnable)) == 0
    except Exception:  # noqa: BLE001 (code that looks for a missing module may raise anything)
        same = False
    for parent, modules in reversed([] if same else saved):
        parent._modules.clear()
        parent._modules.update(modules)
    return same


def remove_unused(runnable: Runnable) -> Runnable:
    """The model without the modules that this pass does not use."""
    require_modules(runnable)
    watched = RecordedPass(runnable)
    places = unused_children(runnable.model, watched)
    if not places:
        raise NotApplicable("every module with weights is used")
    if were_removed(runnable, watched.outputs, places):
        return runnable
    if sum(were_removed(runnable, watched.outputs, [place]) for place in places) == 0:
        raise NotApplicable("the model looks for its unused modules")
    return runnable


register(
    Change(
        name="remove_unused",
        summary="Remove modules that a pass with these inputs neither calls nor reads",
        codes=("S101",),
        effect=EXACT,
        apply=remove_unused,
        parts=(*RECORDED_PASS, unused_children, were_removed),
        imports=RECORDED_PASS_IMPORTS,
    )
)
