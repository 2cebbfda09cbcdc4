"""`assay.summary`: the module tree with shapes, parameters, FLOPs and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assay.api.arguments import check_whole
from assay.api.observe import observe_opened
from assay.api.options import RunOptions
from assay.api.partial import warn_if_partial
from assay.sources.open import open_source
from assay.views.text.summary import Summary
from assay.views.text.summary_columns import parse_columns


def summary(
    model: Any,
    inputs: Any = None,
    *,
    full: bool = False,
    depth: int | None = None,
    exact: bool = False,
    columns: str | Iterable[str] | None = None,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    as_is: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Summary:
    """Summarise `model` as a module tree with shapes, parameters, FLOPs and memory.

    Args:
        model: Anything `assay.open` accepts.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        full: Show every module on its own line instead of folding runs of identical modules.
        depth: Show modules down to this depth; the root has depth 0. Default: all.
        exact: Show all digits instead of three significant ones.
        columns: The columns to show, such as `["input", "output", "params", "macs"]`; torchinfo's names work too.
            None shows the default ones.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        backward: Also record a training step, in training mode.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.

    Returns:
        The summary: `print` it, display it in a notebook, or use its `rows`. If the forward pass stops midway, a
        `PartialWarning` is issued, `partial` is True, and the totals cover only the ops before.

    Raises:
        UsageError: An argument is not valid, or does not apply to this model.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed or inferred.
        ReadError: The model or file cannot be read.
    """
    check_whole("depth", depth, 0, optional=True)
    chosen = None if columns is None else parse_columns(columns)
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust, as_is=as_is)
    document = observe_opened(open_source(model, model_args=model_args, trust=trust), inputs, options)
    warn_if_partial(document)
    return Summary(document, full=full, depth=depth, exact=exact, columns=chosen)
