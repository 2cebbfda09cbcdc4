"""Computing the logits of the last position only."""

from __future__ import annotations

import inspect
from typing import Any

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import DRY_PASS, DRY_PASS_IMPORTS, map_tensors, require_modules, tensors_in
from assay.trials.runnable import Runnable


def last_positions(expected: Any, actual: Any) -> tuple[Any, Any]:
    """Two outputs with the tensors of the longer one cut to the lengths of the other, from the end of dimension 1."""
    sizes = iter(tensors_in(actual))

    def cut(tensor: Any) -> Any:
        other = next(sizes, tensor)
        longer = other.dim() == tensor.dim() == 3 and other.shape[1] < tensor.shape[1]
        return tensor[:, -other.shape[1] :] if longer else tensor

    return map_tensors(cut, expected), actual


def last_logits(runnable: Runnable) -> Runnable:
    """The language model asked for the logits of the last position only."""
    require_modules(runnable)
    known = inspect.signature(runnable.model.forward).parameters
    name = next((name for name in ("logits_to_keep", "num_logits_to_keep") if name in known), None)
    if name is None:
        raise NotApplicable("the model's forward does not take logits_to_keep")
    if runnable.kwargs.get("labels") is not None:
        raise NotApplicable("the loss needs the logits of all positions")
    if runnable.kwargs.get(name):
        raise NotApplicable("only the logits of some positions are computed already")
    runnable.kwargs = {**runnable.kwargs, name: 1}
    before = runnable.compare
    runnable.compare = last_positions if before is None else lambda a, b: before(*last_positions(a, b))
    return runnable


register(
    Change(
        name="last_logits",
        summary="Compute the logits of the last position only (logits_to_keep=1)",
        codes=("M102",),
        effect=ROUNDING,
        apply=last_logits,
        parts=(*DRY_PASS, last_positions),
        imports=(*DRY_PASS_IMPORTS, "import inspect"),
        stage="inputs",
    )
)
