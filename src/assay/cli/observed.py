"""A recorded pass for a command: the document, what is reported about it, and the exit code it leads to."""

from __future__ import annotations

from typing import Any

from assay.api.observe import observed
from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import Output
from assay.cli.output import refuse_overwrite
from assay.cli.streams import prints_to_stderr
from assay.document import files
from assay.document.document import INFERRED, Document
from assay.document.tree import shown
from assay.errors import OK, PartialError
from assay.sources.open import open_source
from assay.sources.opened import Opened


def document_of(
    narrator: Narrator, model: str | Opened, inputs: Any, options: RunOptions, output: Output | None = None
) -> Document:
    """The document of `model`, saved if requested; what had to be inferred or assumed is reported."""
    if output is not None:
        refuse_overwrite(output, model.origin.location if isinstance(model, Opened) else model, inputs)
    # What a model prints is narration: it must not get between the data on stdout.
    with prints_to_stderr():
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        document = observed(opened, inputs, options)
    if output is not None and output.save is not None:
        files.save(document, output.save, overwrite=output.force)
    report_run(narrator, document, fresh=opened.document is None)
    return document


def exit_code(narrator: Narrator, document: Document) -> int:
    """Zero, or 4 with one line that says where the forward pass stopped."""
    failure = document.run.failure
    if failure is None:
        return OK
    where = f"{shown(failure.module)} ({failure.module_class})"
    at = f" at {failure.op}" if failure.op else ""
    narrator.warn(f"partial: the forward pass stopped in module {where}{at}: {failure.error}")
    return PartialError.exit_code


def weights_exit_code(narrator: Narrator, document: Document) -> int:
    """Zero, or 4 with a line for each shard or tensor whose statistics could not be had."""
    failures = document.weights.failures if document.weights is not None else ()
    for failure in failures:
        narrator.warn(f"partial: {failure}")
    return PartialError.exit_code if failures else OK


def report_inputs(narrator: Narrator, how: str, kind: str) -> None:
    """What a model was called with, where that was inferred."""
    if kind == INFERRED:
        narrator.note(f"inputs {how} (--inputs gives your own)")


def report_run(narrator: Narrator, document: Document, *, fresh: bool) -> None:
    """What had to be inferred for a pass that has just run and, with -v, how it ran and what was assumed."""
    run = document.run
    if fresh:
        report_inputs(narrator, run.inputs_from, run.inputs_kind)
    if run.mode != "none":
        narrator.detail(f"recorded {document.model_class} in {run.mode} mode with torch {document.machine.torch}")
    if run.backward_failure is not None:
        failed = run.backward_failure
        narrator.detail(f"the backward pass stopped in '{failed.module}': {failed.error}")
    for assumption in run.assumptions:
        narrator.detail(f"assumed: {assumption}")
