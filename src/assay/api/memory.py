"""`assay.memory`: the memory a model needs for inference and training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.analysis.memory import Memory, memory_of
from assay.api.observe import observe_opened
from assay.api.options import RunOptions
from assay.api.partial import warn_if_partial
from assay.sources.open import open_source


def memory(
    model: Any,
    inputs: Any = None,
    *,
    optimizer: str = "adamw",
    master_weights: bool = False,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    as_is: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Memory:
    """Compute the memory that `model` needs: weights, activations and peak, and a training step with `backward`.

    Args:
        model: Anything `assay.open` accepts.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        optimizer: The optimizer whose state counts towards training memory, such as `"adamw"` or `"sgd"`.
        master_weights: For training, include float32 copies of parameters stored in a narrower dtype.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        backward: Also record a training step, in training mode.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.

    Returns:
        The memory in bytes: `parameters`, `buffers`, `gradients` and `optimizer` state; `inference` is the
        memory during the forward pass, with its peak in `total`, and `training` that of a training step; None if no
        op ran or no step was recorded. If the forward pass stops midway, a `PartialWarning` is issued, `partial` is
        True, and the peak covers only the ops before.

    Raises:
        UsageError: An argument is not valid, such as an unknown optimizer, or does not apply to this model.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed or inferred.
        ReadError: The model or file cannot be read.
    """
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust, as_is=as_is)
    document = observe_opened(open_source(model, model_args=model_args, trust=trust), inputs, options)
    warn_if_partial(document)
    return memory_of(document, optimizer=optimizer, master_weights=master_weights)
