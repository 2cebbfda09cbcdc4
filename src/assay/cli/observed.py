"""Watching a model for a command: the capture, what is told about it, and the exit code it leads to."""

from __future__ import annotations

from assay.cli.narration import Narrator
from assay.cli.options import Output, Watch
from assay.cli.output import refuse_overwrite
from assay.cli.streams import prints_to_stderr
from assay.document import files
from assay.document.document import Document
from assay.document.tree import shown
from assay.errors import OK, PartialError


def watched(narrator: Narrator, model: str, watch: Watch, output: Output | None = None) -> Document:
    """The document of `model`, saved where that was asked for; what had to be inferred or assumed is told."""
    if output is not None:
        refuse_overwrite(output, model, watch.inputs)
    # What a model prints is narration: it must not get between the data on stdout.
    with prints_to_stderr():
        document = watch.capture(model)
    if output is not None and output.save is not None:
        files.save(document, output.save, overwrite=output.force)
    _tell(narrator, document, fresh=not model.endswith((*files.SUFFIXES, ".pt2")))
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


def tell_inputs(narrator: Narrator, document: Document) -> None:
    """Say what a model was called with where nobody said what to call it with."""
    if document.run.inputs_from.startswith("inferred"):
        narrator.note(f"inputs {document.run.inputs_from} (--inputs gives your own)")


def _tell(narrator: Narrator, document: Document, *, fresh: bool) -> None:
    run = document.run
    if fresh:
        tell_inputs(narrator, document)
    narrator.detail(f"watched {document.model_class} in {run.mode} mode with torch {document.machine.torch}")
    for assumption in run.assumptions:
        narrator.detail(f"assumed: {assumption}")
