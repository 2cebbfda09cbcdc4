"""The recorded pass of a command: its document, the messages about it, and the exit code."""

from __future__ import annotations

from typing import Any

from assay import host, units
from assay.api.observe import observe_opened
from assay.api.options import OPENING, RunOptions
from assay.cli.options import Output
from assay.cli.output import refuse_overwrite, write_result
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.document import files
from assay.document.document import INFERRED, Document
from assay.document.tree import path_text
from assay.errors import OK, PartialError, ReadError
from assay.messages import one_line, plural
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.views.text.totals import mode_text


def document_of(
    messages: Messages, model: str | Opened, inputs: Any, options: RunOptions, output: Output | None = None
) -> Document:
    """The document of `model`, saved if requested; messages report what was inferred or assumed."""
    if output is not None:
        refuse_overwrite(output, model.origin.location if isinstance(model, Opened) else model, inputs)
    with prints_to_stderr():
        messages.line.step(OPENING)
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        document = observe_opened(opened, inputs, options, messages.line)
    if output is not None:
        save_document(document, output, partial=document.stopped)
    report_run(messages, document, fresh=opened.document is None)
    return document


def need_pass(document: Document) -> None:
    """Fail if the document holds no recorded pass, such as that of a checkpoint: its modules and ops are unknown."""
    if not document.recorded:
        raise ReadError(f"{one_line(document.origin.location)} has no recorded pass: give the model itself")


def save_document(document: Document, output: Output, *, partial: bool) -> None:
    """Save the document if requested; a `partial` one is saved beside the complete one."""
    if output.save is not None:
        data = files.encode(document, output.save.name)
        write_result(output.save, data, partial=partial, overwrite=output.force)


def exit_code(messages: Messages, document: Document) -> int:
    """0, or 4 after a message that names the module in which the forward pass or the training step stopped."""
    failure = document.failure
    if failure is None:
        return OK
    if failure.unread:
        messages.warn(f"incomplete: {failure.error}")
        return PartialError.exit_code
    module = f"{path_text(failure.module)} ({failure.module_class})"
    op = f" at {failure.op}" if failure.op else ""
    messages.warn(f"incomplete: the {document.stopped_pass} stopped in module {module}{op}: {failure.error}")
    return PartialError.exit_code


def _is_interpreted(document: Document) -> bool:
    """Whether its pass is that of a TorchScript file whose code was interpreted on shapes."""
    return document.origin.kind == "scripted" and document.run.mode == "meta"


def weights_exit_code(messages: Messages, document: Document) -> int:
    """0, or 4 after one message per shard or tensor that could not be read."""
    failures = document.weights.failures if document.weights is not None else ()
    for failure in failures:
        messages.warn(f"incomplete: {failure}")
    return PartialError.exit_code if failures else OK


def warn_of_other_weights(messages: Messages, document: Document, weights: str | None) -> None:
    """Warn if fewer than half of the tensors in the checkpoint `weights` have the name of a tensor of the model."""
    if weights is None or document.weights is None or not document.tensors or not document.weights.tensors:
        return
    names = {name for tensor in document.tensors for name in tensor.names}
    total = len(document.weights.tensors)
    matching = sum(not names.isdisjoint(tensor.names) for tensor in document.weights.tensors)
    if 2 * matching < total:
        messages.warn(f"{matching} of {plural(total, 'tensor name')} in {one_line(weights)} match the model")


def report_inputs(messages: Messages, how: str, kind: str) -> None:
    """Print the inputs that the model was called with if they were inferred."""
    if kind == INFERRED:
        messages.note(f"inputs {how} (set them with --inputs)")


def _report_mode(messages: Messages, document: Document, *, fresh: bool) -> None:
    """Print the mode the pass ran in: always if a module was in another one, else with -v."""
    run = document.run
    changed = not run.as_is and any(module.training != run.training for module in document.modules)
    hint = "; --as-is runs it in its own mode" if changed and not run.training else ""
    (messages.note if changed and fresh else messages.detail)(f"recorded {mode_text(document)}{hint}")


def report_not_run(messages: Messages, document: Document) -> None:
    """Print why no pass was recorded, if none was."""
    if not document.kinds:
        for assumption in document.run.assumptions:
            messages.note(assumption)


def _report_memory_limit(messages: Messages, document: Document) -> None:
    """With -v, print which part of the GPU's memory the environment allows, or that it has no effect."""
    fraction = host.cuda_memory_fraction()
    if fraction is not None:
        on_gpu = document.machine.device.startswith("cuda")
        effect = f"{units.share(fraction, 1)} of the GPU's memory" if on_gpu else "no effect: nothing ran on a GPU"
        messages.detail(f"{host.CUDA_MEMORY_FRACTION}={fraction:g}: {effect}")


def report_run(messages: Messages, document: Document, *, fresh: bool) -> None:
    """Print the inferred inputs if the pass is `fresh`; with -v also its mode and assumptions."""
    run = document.run
    if fresh:
        report_inputs(messages, run.inputs_from, run.inputs_kind)
    if run.mode != "none" and document.modules:
        _report_mode(messages, document, fresh=fresh)
        messages.detail(f"recorded {document.model_class} in {run.mode} mode with torch {document.machine.torch}")
    _report_memory_limit(messages, document)
    for each in run.empty_inputs:
        messages.warn(f"input {each.name} is empty ({units.shape(each.type.shape)}): most ops compute nothing")
    if fresh and run.assumptions and _is_interpreted(document):
        count = plural(len(run.assumptions), "assumption")
        messages.note(
            f"{count} about values that exist only with data: branches, loops and figures may differ (-v lists them)"
        )
    for assumption in run.assumptions:
        messages.detail(f"assumed: {assumption}")
