"""Turning a model, checkpoint or document into a subject for the explorer."""

from __future__ import annotations

import shlex
from typing import Any

from msgspec.structs import replace

from assay.analysis.cost.totals import with_cost
from assay.analysis.flow import writes_parameters
from assay.api.explore.checkpoints import StoredInspector, checkpoint_subject, weights_subject
from assay.api.observe import check_can_run, inputs_for, observe_opened
from assay.api.options import OPENING, OnProgress, Progress, RunOptions, unreported
from assay.api.weights.joined import only_tensors, with_weights
from assay.api.weights.source import tensors_of
from assay.document.document import INFERRED, Document
from assay.document.weights_fit import WeightsFit
from assay.errors import AssayError, InputsError, PartialError, ReadError
from assay.findings.engine import check_all
from assay.messages import plural
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.sources.tensors import torch_dtype
from assay.views.tui.subject import ExploredModel, of_document


def explorer_subject(
    target: Any,
    inputs: Any = None,
    options: RunOptions | None = None,
    *,
    run: bool | None = None,
    stats: bool = False,
    notes: tuple[str, ...] = (),
    on_progress: OnProgress = unreported,
) -> ExploredModel:
    """Open `target` and prepare it for the explorer.

    A pass is recorded if inputs are given or `run` is True; by default also with inferred inputs, unless the model is
    live. If an inferred pass fails, the module tree is shown without it. `stats` runs the model once more and records
    the statistics of every module call.
    """
    options = options or RunOptions()
    on_progress(Progress(OPENING))
    opened = open_source(target, model_args=options.model_args, trust=options.trust)
    subject = _subject(opened, inputs, options, run, stats, on_progress)
    return _with_findings(replace(subject, notes=(*notes, *subject.notes)))


def _subject(
    opened: Opened, inputs: Any, options: RunOptions, run: bool | None, stats: bool, on_progress: OnProgress
) -> ExploredModel:
    if opened.document is not None:
        return _of_saved(opened.document)
    error = opened.model_error
    if error is not None:
        subject = checkpoint_subject(opened)
        # A file or state dict that holds only weights has no model to miss.
        note = () if opened.origin.kind == "file" or opened.state is not None else (only_tensors(str(error)),)
        return replace(subject, notes=(*note, *subject.notes))
    runs = opened.origin.kind != "live" and opened.model.holder is None if run is None else run
    return _of_model(opened, inputs, options, on_progress, runs=runs or inputs is not None, stats=stats)


def _of_saved(document: Document) -> ExploredModel:
    """A saved document with its cost; a document that holds only tensors is shown as a checkpoint."""
    if document.weights is not None and not document.tensors:
        return weights_subject(document)
    subject = of_document(document if document.cost is not None else with_cost(document))
    return replace(subject, notes=tuple(_failure_notes(document)))


def _of_model(
    opened: Opened, inputs: Any, options: RunOptions, on_progress: OnProgress, *, runs: bool, stats: bool
) -> ExploredModel:
    from assay.api.explore.live import live_subject

    notes: list[str] = []
    document = None
    if runs or stats:
        check_can_run(opened, options)
    if stats:
        opened = opened.with_weights
    try:
        # Resolved once, for both the recorded pass and the statistics.
        device, dtype = options.device, options.dtype
        run = runs or stats
        call = inputs_for(opened, inputs, device=device, dtype=dtype, on_progress=on_progress) if run else None
        if runs:
            document = observe_opened(opened, call, options, on_progress)
            notes += _notes(document)
        if stats:
            on_progress(Progress("recording statistics"))
            keep = document is None or writes_parameters(document)
            notes += _record_stats(opened, call, options, keep_parameters=keep)
    except (InputsError, PartialError, ReadError) as error:
        if inputs is not None:
            raise
        notes.append(f"no FLOPs and shapes, because the model was not run: {error}")
    subject = live_subject(opened, document)
    if opened.stored is not None and opened.model.on_meta:
        subject = _with_stored(subject, opened)
    elif opened.stored is None and opened.origin.kind == "config":
        notes.append("no values of weights: the folder holds none")
    return replace(subject, notes=(*notes, *subject.notes))


def _with_stored(subject: ExploredModel, opened: Opened) -> ExploredModel:
    """The subject with the tensors in its files, whose values are read when they are shown."""
    try:
        document = with_weights(subject.document, opened, opened, listing=True)
    except ReadError as error:
        return replace(subject, notes=(f"no values of weights: {error}",))
    fit, report = document.weights_fit, document.weights
    read = (*report.notes, *report.failures) if report is not None else ()
    inspector = StoredInspector(subject.inspector, tensors_of(opened), document)
    return replace(subject, document=document, inspector=inspector, notes=(*_misfit(fit), *read))


def _misfit(fit: WeightsFit | None) -> tuple[str, ...]:
    """A note on stored weights of another form than the model's, if they are."""
    if fit is None or not fit.summary:
        return ()
    if fit.quantization:
        return (f"the stored weights are quantized ({fit.quantization}), the model that is shown is not",)
    return (f"the stored weights do not fit the model: {fit.summary}",)


def _failure_notes(document: Document) -> list[str]:
    failure = document.run.failure
    return [] if failure is None else [f"the forward pass failed in {failure.module}: {failure.error}"]


def _notes(document: Document) -> list[str]:
    if document.run.failure is not None:
        return _failure_notes(document)
    return [f"inputs {document.run.inputs_from}"] if document.run.inputs_kind == INFERRED else []


def _record_stats(opened: Opened, call: Any, options: RunOptions, *, keep_parameters: bool) -> list[str]:
    """Run the model once and record the statistics of every module call; return notes about problems."""
    import torch
    from torch.nn import Parameter

    from assay.forward_stats import record_forward_stats
    from assay.recorder.guard import values_restored
    from assay.recorder.inventory import members
    from assay.recorder.watch import PassSettings, prepared_model
    from assay.sources.usercode import guarded

    if opened.model.on_meta:
        return ["no forward statistics: the weights are on the meta device"]
    module = opened.module
    setting = PassSettings("real", options.training, options.device, torch_dtype(options.dtype))
    try:
        with (
            prepared_model(module, members(module), call.args, call.kwargs, setting) as prepared,
            values_restored(each for each in prepared.held if keep_parameters or not isinstance(each, Parameter)),
            guarded("the forward pass"),
            torch.no_grad(),
            record_forward_stats(module),
        ):
            module(*prepared.args, **prepared.kwargs)
    except AssayError as error:
        return [f"forward statistics are incomplete: {error}"]
    return []


def _with_findings(subject: ExploredModel) -> ExploredModel:
    """The subject with the findings of all rules, unless its document already has findings."""
    if subject.document.findings:
        return subject
    result = check_all(subject.document)
    if subject.tensors_in_tree and subject.document.weights is None:
        command = f"assay check {shlex.quote(subject.document.origin.location)}"
        text = f"Not checked: the weights were not read. Run `{command}`."
    else:
        skipped = f", {len(result.skipped):,} skipped" if result.skipped else ""
        text = f"No findings ({plural(result.rules - len(result.skipped), 'rule')} checked{skipped})."
    return replace(subject, document=replace(subject.document, findings=result.findings), no_findings=text)
