"""Recomputing activations in the backward pass instead of storing them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import torch
from torch import nn

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import DRY_PASS, DRY_PASS_IMPORTS, require_modules
from assay.trials.runnable import Runnable


def repeated_blocks(model: Any) -> list[Any]:
    """The outermost modules with children that stand in a list or sequence with another one of the same class."""
    if isinstance(model, (nn.ModuleList, nn.Sequential)):
        kinds = Counter(type(child) for child in model.children() if any(True for _ in child.children()))
        blocks = [child for child in model.children() if kinds[type(child)] > 1]
    else:
        blocks = []
    rest = [child for child in model.children() if not any(child is block for block in blocks)]
    return blocks + [block for child in rest for block in repeated_blocks(child)]


@cache
def checkpointed_class(kind: type[Any]) -> Any:
    """A subclass of a module's class that stores only its inputs for the backward pass."""

    class CheckpointedBlock(kind):  # type: ignore[misc]
        """A block that runs once more in the backward pass."""

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return super().forward(*args, **kwargs)
            return torch.utils.checkpoint.checkpoint(super().forward, *args, use_reentrant=False, **kwargs)

    return CheckpointedBlock


def without_cache(expected: Any, actual: Any) -> tuple[Any, Any]:
    """Two outputs of a transformers model, without the key-value cache, which training does not use."""
    return tuple({k: v for k, v in each.items() if k != "past_key_values"} for each in (expected, actual))  # type: ignore[return-value]


def checkpoint_activations(runnable: Runnable) -> Runnable:
    """The model with repeated blocks that are recomputed in the backward pass."""
    require_modules(runnable)
    model = runnable.model
    if hasattr(model, "config") and hasattr(model, "gradient_checkpointing_enable"):
        if not getattr(model, "supports_gradient_checkpointing", False):
            raise NotApplicable("this model of transformers does not support activation checkpointing")
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.config.use_cache = False
        runnable.compare = without_cache
        return runnable
    blocks = repeated_blocks(model)
    if not blocks:
        raise NotApplicable("the model has no repeated blocks in a ModuleList or Sequential")
    for block in blocks:
        block.__class__ = checkpointed_class(block.__class__)
    return runnable


register(
    Change(
        name="checkpoint_activations",
        summary="Recompute the activations of repeated blocks in the backward pass instead of storing them",
        codes=("M101",),
        effect=ROUNDING,
        apply=checkpoint_activations,
        parts=(*DRY_PASS, repeated_blocks, checkpointed_class, without_cache),
        imports=(
            *DRY_PASS_IMPORTS,
            "from collections import Counter",
            "from functools import cache",
            "import torch.utils.checkpoint",
        ),
        training=True,
    )
)
