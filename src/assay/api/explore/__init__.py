"""`assay.explore`: anything that is or holds a model, opened in the terminal explorer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.api.explore.subjects import subject_of
from assay.api.explore.terminal import need_terminal, show
from assay.api.options import RunOptions
from assay.messages import error_line


def explore(
    model: Any,
    inputs: Any = None,
    *,
    theme: str = "",
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> None:
    """Open `model` in the terminal until the user quits. Recorded forward statistics are shown where there are some.

    Args:
        model: Anything `assay.open` takes.
        inputs: What to call the model with, as `assay.observe` takes it. With inputs one forward pass is recorded
            first, so that FLOPs, shapes, calls and tensor flow are known.
        theme: The name of a colour theme.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as in `assay.observe`.
        device: The torch device to run on.
        dtype: The floating-point type to run in, such as `"bfloat16"`.
        train: Run in training mode.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run.
    """
    need_terminal(theme)
    options = RunOptions(mode, device, dtype, train, model_args=model_args, trust=trust)
    show(subject_of(model, inputs, options), theme=theme)


def explore_with_stats(model: Any, *args: Any, **kwargs: Any) -> None:
    """Call `model` once with every call inside recorded, then open it; an error of the model is raised afterwards.

    Args:
        model: A live module, or a callable object that holds modules.
        args: The arguments to call it with.
        kwargs: The keyword arguments to call it with.
    """
    need_terminal()
    from assay.forward_stats import record_forward_stats

    failure: Exception | None = None
    with record_forward_stats(model):
        try:
            model(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  the user wants to see how far it came; it is raised below
            failure = error
    notes = () if failure is None else (f"the forward pass stopped: {error_line(failure)}",)
    show(subject_of(model, notes=notes))
    if failure is not None:
        raise failure


explore_torch_module = explore
explore_torch_module_with_stats = explore_with_stats
