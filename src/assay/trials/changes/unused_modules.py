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

    found = []
    for parent in model.modules():
        for name, child in parent.named_children():
            weighs = any(True for _ in child.parameters())
            if weighs and used(parent) and not used(child):
                found.append((parent, name))
    return found


def removed(parent: Any, name: str) -> None:
    """Delete a child; an entry of a list becomes an empty module, so that the others keep their places."""
    if isinstance(parent, (nn.ModuleList, nn.Sequential)):
        parent._modules[name] = nn.Module()
    else:
        delattr(parent, name)


def is_needed(runnable: Runnable, expected: Any) -> bool:
    """Whether the model now fails or gives other outputs."""
    try:
        return largest_error(expected, dry_outputs(runnable)) > 0
    except Exception:  # noqa: BLE001 (code that looks for a missing module may raise anything)
        return True


def remove_unused(runnable: Runnable) -> Runnable:
    """The model without the modules that this pass does not use."""
    require_modules(runnable)
    watched = RecordedPass(runnable)
    expected, count = watched.outputs, 0
    for parent, name in unused_children(runnable.model, watched):
        modules = dict(parent._modules)
        removed(parent, name)
        if is_needed(runnable, expected):
            parent._modules.clear()
            parent._modules.update(modules)
        else:
            count += 1
    if not count:
        raise NotApplicable("every module with weights is used")
    return runnable


register(
    Change(
        name="remove_unused",
        summary="Remove modules that a pass with these inputs neither calls nor reads",
        codes=("S101", "S107"),
        effect=EXACT,
        apply=remove_unused,
        parts=(*RECORDED_PASS, unused_children, removed, is_needed),
        imports=RECORDED_PASS_IMPORTS,
    )
)
