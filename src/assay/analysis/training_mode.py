"""The mode, training or evaluation, that each module was in before the pass, beside the mode it ran in."""

from __future__ import annotations

from assay.document.document import Document
from assay.document.tree import path_text


def mode_name(training: bool) -> str:
    """`"training"` or `"evaluation"`."""
    return "training" if training else "evaluation"


def mode_changes(document: Document) -> list[int]:
    """The modules that were in another mode than the module above them."""
    modules = document.modules
    return [
        index
        for index, module in enumerate(modules)
        if module.parent is not None and module.training != modules[module.parent].training
    ]


def own_modes(document: Document) -> dict[str, str]:
    """The mode before the pass of the root, and of every module that was in another mode than the one above it."""
    roots = [index for index, module in enumerate(document.modules) if module.parent is None]
    shown = [document.modules[index] for index in (*roots, *mode_changes(document))]
    return {path_text(module.path): mode_name(module.training) for module in shown}


def left_in_training(document: Document) -> list[int]:
    """The modules in training mode inside a model that is in evaluation mode."""
    roots = [module for module in document.modules if module.parent is None]
    if not roots or roots[0].training:
        return []
    return [index for index, module in enumerate(document.modules) if module.training]
