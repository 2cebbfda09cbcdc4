"""`assay.explore`: browse a model, checkpoint or document in the terminal, or in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.api.explore.notebook import in_notebook, show_in_notebook
from assay.api.explore.subjects import explorer_subject
from assay.api.explore.terminal import check_terminal, run_explorer
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
    as_is: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> None:
    """Browse `model` in the terminal until the user quits. Forward statistics are shown if they were recorded.

    In a notebook, the modules of its web page are shown below the cell instead.

    Args:
        model: Anything `assay.open` accepts.
        inputs: What to call the model with, in any form `assay.observe` accepts. One forward pass is then recorded
            first, to show FLOPs, shapes, calls and data flow. With None, a live model is not run, and other models
            are run with inferred inputs if possible.
        theme: The name of a colour theme, such as `"nord"`. Empty uses the theme from the settings. A notebook
            ignores it.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.

    Raises:
        UsageError: It runs neither in an interactive terminal nor in a notebook, the theme is unknown, or another
            argument is not valid.
        InputsError: The given inputs do not match the arguments of forward, or cannot be parsed.
        ReadError: The model or file cannot be read.
    """
    notebook = in_notebook()
    if not notebook:
        check_terminal(theme)
    options = RunOptions(mode, device, dtype, train, model_args=model_args, trust=trust, as_is=as_is)
    subject = explorer_subject(model, inputs, options)
    if notebook:
        show_in_notebook(subject)
    else:
        run_explorer(subject, theme=theme)


def explore_with_stats(model: Any, *args: Any, **kwargs: Any) -> None:
    """Call `model` once, recording the statistics of every module call, then browse it as `explore` does.

    The model runs in the mode it is in, and is restored afterwards. An exception that it raises is raised again after
    the user quits.

    Args:
        model: A live module, or a callable object that holds modules.
        args: The positional arguments to call it with.
        kwargs: The keyword arguments to call it with.

    Raises:
        UsageError: It runs neither in an interactive terminal nor in a notebook, or `model` holds no modules.
    """
    notebook = in_notebook()
    if not notebook:
        check_terminal()
    from assay.forward_stats import record_forward_stats
    from assay.recorder.guard import unchanged, values_restored
    from assay.sources.holders import named_modules

    failure: Exception | None = None
    modules = [module for _, module in named_modules(model)]
    with unchanged(modules, []) as state, values_restored(state.tensors), record_forward_stats(model):
        try:
            model(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  shown in the explorer first, and raised again below
            failure = error
    notes = () if failure is None else (f"the forward pass failed: {error_line(failure)}",)
    show = show_in_notebook if notebook else run_explorer
    show(explorer_subject(model, notes=notes))
    if failure is not None:
        raise failure


explore_torch_module = explore
explore_torch_module_with_stats = explore_with_stats
