"""`assay.report`: one file with everything that a document holds, for people who do not have the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay import atomic
from assay.api.arguments import check_callable, check_flag, check_number
from assay.api.options import OnStep, RunOptions, by_step
from assay.api.report.formats import HTML, encoded, format_of
from assay.api.report.subject import reported, subject_of

__all__ = ["report"]


def report(
    model: Any,
    path: str | Path = "report.html",
    inputs: Any = None,
    *,
    against: Any = None,
    format: str | None = None,
    full: bool = False,
    measure: bool = True,
    seconds: float = 5.0,
    overwrite: bool = True,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    as_is: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    on_step: OnStep | None = None,
) -> Path:
    """Write a report on `model`: a web page that needs neither a network nor Assay, or Markdown, text or JSON.

    Args:
        model: What `assay.analyze`, `assay.check`, `assay.profile`, `assay.observe`, `assay.analyze_weights`,
            `assay.read_trace` or `assay.load` returned; or anything `assay.open` accepts, which is analysed first.
        path: The file to write.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        against: Another model, result or document to compare with: what differs is listed in a view of its own.
        format: `"html"`, `"md"`, `"txt"` or `"json"`. If None, the end of the file's name decides; HTML by default.
        full: Include the histograms of all tensors, however many there are, and in text every section.
        measure: Time a model that is analysed first, and examine its outputs. A document is never run.
        seconds: Seconds after which timing stops.
        overwrite: Replace an existing file; if False, an existing file is an error.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        backward: Also record and time a training step, in training mode.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.
        on_step: Called with one line of text before each step. If None, steps are not reported.

    Returns:
        The file that was written: `path`, or one beside it called `*.partial.*` if a pass stopped midway.

    Raises:
        UsageError: An argument is not valid, or the file exists and `overwrite` is False.
        InputsError: The given inputs do not match the arguments of forward, or cannot be parsed.
        ReadError: The model or file cannot be read.
        WriteError: The file cannot be written.
    """
    check_callable("on_step", on_step, optional=True)
    for name, flag in (("full", full), ("measure", measure), ("overwrite", overwrite)):
        check_flag(name, flag)
    check_number("seconds", seconds, 0)
    target = Path(path)
    chosen = format_of(format, target)
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust, as_is=as_is)
    seconds = seconds if measure else 0.0
    progress = by_step(on_step)
    result = reported(model, inputs, options, seconds, progress)
    other = None if against is None else reported(against, None, options, seconds, progress)
    subject = subject_of(result, against=other, full=full)
    data = encoded(subject, chosen)
    return atomic.write_result(target, data, partial=subject.document.stopped, overwrite=overwrite)


def page_html(model: Any, inputs: Any, options: RunOptions, view: str = "") -> str:
    """The page of a model that is recorded but not timed, opened at `view`."""
    subject = subject_of(reported(model, inputs, options, 0.0))
    return encoded(subject, HTML, view=view).decode()
