"""Attention by scaled_dot_product_attention instead of single ops."""

from __future__ import annotations

import gc
import weakref
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.deferred_scores import DEFERRED_SCORES, DEFERRED_SCORES_IMPORTS, FusedAttention
from assay.trials.changes.dry_pass import (
    RECORDED_PASS,
    RECORDED_PASS_IMPORTS,
    RecordedPass,
    dry_outputs,
    has_hooks,
    largest_error,
    require_modules,
    restored,
)
from assay.trials.runnable import Runnable


class AttentionWithoutWeights(nn.MultiheadAttention):  # type: ignore[misc]
    """Attention that never returns its weights."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of attention and None."""
        kwargs = kwargs if len(args) > 4 else {**kwargs, "need_weights": False}
        return super().forward(*args[:4], *[False for _ in args[4:5]], *args[5:], **kwargs)


@cache
def fused_class(kind: type[Any]) -> Any:
    """A subclass of a module's class in whose forward attention is fused."""

    class FusedForward(kind):  # type: ignore[misc]
        """A module whose attention is fused; a compiler sees the original, which it fuses itself."""

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_dynamo_compiling():
                return super().forward(*args, **kwargs)
            with FusedAttention():
                return super().forward(*args, **kwargs)

    return FusedForward


def switched_by_config(model: Any) -> int:
    """Number of models of transformers that use eager attention and were switched to SDPA."""
    switched = 0
    for module in model.modules():
        config = getattr(module, "config", None)
        eager = getattr(config, "_attn_implementation", None) == "eager"
        if eager and hasattr(module, "set_attn_implementation") and not getattr(config, "output_attentions", False):
            try:
                module.set_attn_implementation("sdpa")
            except (ValueError, ImportError):  # this architecture has no such implementation
                continue
            switched += getattr(config, "_attn_implementation", None) == "sdpa"
    return switched


def returned_weights(runnable: Runnable) -> dict[Any, list[Any]]:
    """References to the weights that MultiheadAttention modules return, where no op reads them."""
    watched = RecordedPass(runnable)
    found: dict[Any, list[Any]] = {}
    for call in watched.calls:
        if type(call.module) is nn.MultiheadAttention and len(call.outputs) == 2 and not has_hooks(call.module):
            found.setdefault(call.module, []).append(call.outputs[1])
    unread = {module: each for module, each in found.items() if not any(watched.readers(tensor) for tensor in each)}
    return {module: [weakref.ref(tensor) for tensor in each] for module, each in unread.items()}


def unread_weights(runnable: Runnable) -> list[Any]:
    """The MultiheadAttention modules that return weights which nothing reads or keeps."""
    returned = returned_weights(runnable)
    gc.collect()
    return [module for module, references in returned.items() if all(reference() is None for reference in references)]


def fates_of_scores(runnable: Runnable) -> list[Any]:
    """What became of all products that may be scores of attention; scores that outlive the pass count as read."""
    mode, running = FusedAttention(), [None]
    mode.notes = []

    def enter(module: Any, args: Any) -> None:
        running.append(module)
        mode.module = module

    def leave(module: Any, args: Any, output: Any) -> None:
        while running.pop() is not module:
            continue
        mode.module = running[-1]

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
    try:
        with restored(runnable.model), mode:
            outputs = runnable()
    finally:
        for handle in handles:
            handle.remove()
    gc.collect()
    for fate, origin in mode.notes:
        fate.read = fate.read or origin() is not None
    del outputs
    return [fate for fate, _ in mode.notes]


def manual_attention(runnable: Runnable) -> list[Any]:
    """The modules whose attention can be fused because nothing else reads or keeps its scores."""
    fates = fates_of_scores(runnable)
    spoiled = {fate.module for fate in fates if fate.fused and fate.read}
    modules = {fate.module: None for fate in fates if fate.fused and fate.module is not None}
    return [module for module in modules if module not in spoiled and not has_hooks(module)]


def sdpa(runnable: Runnable) -> Runnable:
    """The model with attention by scaled_dot_product_attention."""
    require_modules(runnable)
    if runnable.kwargs.get("output_attentions"):
        raise NotApplicable("the pass returns the weights of attention")
    expected = dry_outputs(runnable)
    switched = switched_by_config(runnable.model)
    returning = unread_weights(runnable)
    for module in returning:
        module.__class__ = AttentionWithoutWeights
    manual = manual_attention(runnable)
    for module in manual:
        module.__class__ = fused_class(module.__class__)
    if not switched and not returning and not manual:
        raise NotApplicable("no module computes attention with single ops whose scores nothing else reads")
    if largest_error(expected, dry_outputs(runnable)) > 1e-2:
        raise NotApplicable("fused attention changes the outputs of this model")
    return runnable


register(
    Change(
        name="sdpa",
        summary="Compute attention with scaled_dot_product_attention instead of single ops",
        codes=("C401",),
        effect=ROUNDING,
        apply=sdpa,
        parts=(
            *RECORDED_PASS,
            *DEFERRED_SCORES,
            *(AttentionWithoutWeights, fused_class, switched_by_config, returned_weights, unread_weights),
            *(fates_of_scores, manual_attention),
        ),
        imports=(*RECORDED_PASS_IMPORTS, *DEFERRED_SCORES_IMPORTS, "import gc", "from functools import cache"),
    )
)
