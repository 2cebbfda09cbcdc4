"""`assay.cost`: what one pass costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.api.observe import observed
from assay.api.options import RunOptions
from assay.document.cost import Cost
from assay.errors import PartialError
from assay.sources.open import open_source


def cost(
    model: Any,
    inputs: Any = None,
    *,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Cost:
    """What one pass of `model` costs: MACs, FLOPs and bytes, by module and by type of operation.

    A pass that stops midway raises `PartialError`, because its sums would look complete; `assay.observe` keeps what
    was recorded.

    Args:
        model: Anything `assay.open` takes.
        inputs: What to call the model with, as `assay.observe` takes it; inferred where left out.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as in `assay.observe`.
        device: The torch device to run on.
        dtype: The floating-point type to run in, such as `"bfloat16"`.
        train: Run in training mode.
        backward: Record a training step as well, in training mode.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run.
    """
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust)
    document = observed(open_source(model, model_args=model_args, trust=trust), inputs, options)
    failure = document.run.failure
    if failure is not None:
        raise PartialError(
            f"the forward pass stopped in '{failure.module}' ({failure.error}): assay.observe keeps what was learned"
        )
    assert document.cost is not None
    return document.cost
