"""`assay.memory`: what a model needs in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.analysis.memory import Memory, memory_of
from assay.api.observe import observed
from assay.api.options import RunOptions
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
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Memory:
    """What `model` needs in memory: weights, activations, the peak, and with `backward` a training step.

    Args:
        model: Anything `assay.open` takes.
        inputs: What to call the model with, as `assay.observe` takes it; inferred where left out.
        optimizer: The optimizer whose state is included for training, such as `"adamw"` or `"sgd"`.
        master_weights: Include float32 copies of narrower parameters for training.
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
    return memory_of(document, optimizer=optimizer, master_weights=master_weights)
