"""`assay.summary`: the module tree with its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.api.observe import observed
from assay.api.options import RunOptions
from assay.sources.open import open_source
from assay.views.text.summary import Summary


def summary(
    model: Any,
    inputs: Any = None,
    *,
    full: bool = False,
    depth: int | None = None,
    exact: bool = False,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Summary:
    """The module tree of `model` with shapes, parameters, FLOPs and memory; `print` it or show it in a notebook.

    Args:
        model: Anything `assay.open` takes.
        inputs: What to call the model with, as `assay.observe` takes it; inferred where left out.
        full: Show every module on a line of its own instead of folding runs of equal ones.
        depth: Show modules down to this depth; None shows all.
        exact: Show every digit instead of three.
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
    return Summary(document, full=full, depth=depth, exact=exact)
