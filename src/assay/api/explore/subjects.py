"""Whatever is given, as something to explore."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from assay.analysis.cost.totals import with_cost
from assay.api.explore.checkpoints import StoredInspector, checkpoint_subject, weights_subject
from assay.api.observe import observed
from assay.api.options import RunOptions
from assay.document.document import INFERRED, Document
from assay.errors import AssayError, InputsError, PartialError, ReadError
from assay.findings.engine import check_all
from assay.sources.inputs import find_inputs
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.views.tui.subject import ExploredModel, of_document


def subject_of(
    target: Any,
    inputs: Any = None,
    options: RunOptions | None = None,
    *,
    run: bool | None = None,
    stats: bool = False,
    notes: tuple[str, ...] = (),
) -> ExploredModel:
    """What `target` is, ready to be looked at.

    A pass is recorded where inputs are given, and for anything opened by name also with inferred ones unless `run`
    is False; where that fails the tree opens all the same. `stats` runs the model once more and records every call.
    """
    options = options or RunOptions()
    opened = open_source(target, model_args=options.model_args, trust=options.trust)
    found = _subject(opened, inputs, options, run, stats)
    return _with_findings(replace(found, notes=(*notes, *found.notes)))


def _subject(opened: Opened, inputs: Any, options: RunOptions, run: bool | None, stats: bool) -> ExploredModel:
    if opened.document is not None:
        return _of_saved(opened.document)
    error = opened.model_error
    if error is not None:
        found = checkpoint_subject(opened)
        # A file of weights alone has no model that could be missed.
        told = () if opened.origin.kind == "file" else (f"its tensors alone: {error}",)
        return replace(found, notes=(*told, *found.notes))
    runs = opened.origin.kind != "live" and opened.model.holder is None if run is None else run
    return _of_model(opened, inputs, options, runs=runs or inputs is not None, stats=stats)


def _of_saved(document: Document) -> ExploredModel:
    """A document with its cost; one that holds tensors alone is shown as a checkpoint."""
    if document.weights is not None and not document.tensors:
        return weights_subject(document)
    return of_document(document if document.cost is not None else with_cost(document))


def _of_model(opened: Opened, inputs: Any, options: RunOptions, *, runs: bool, stats: bool) -> ExploredModel:
    from assay.api.explore.live import live_subject

    notes: list[str] = []
    document = None
    if stats:
        opened = opened.with_weights
    try:
        # Found once, for the recorded pass and for the statistics.
        found = find_inputs(inputs, opened, device=options.device, dtype=options.dtype) if runs or stats else None
        if runs:
            document = observed(opened, found, options)
            notes += _notes(document)
        if stats:
            notes += _recorded(opened, found)
    except (InputsError, PartialError, ReadError) as error:
        if inputs is not None:
            raise
        notes.append(f"not run, so without FLOPs and shapes: {error}")
    subject = live_subject(opened, document)
    if opened.stored is not None and opened.model.on_meta:
        subject = replace(subject, inspector=StoredInspector(subject.inspector, opened))
    return replace(subject, notes=tuple(notes))


def _notes(document: Document) -> list[str]:
    failure = document.run.failure
    if failure is not None:
        return [f"the forward pass stopped in {failure.module}: {failure.error}"]
    return [f"inputs {document.run.inputs_from}"] if document.run.inputs_kind == INFERRED else []


def _recorded(opened: Opened, found: Any) -> list[str]:
    """Run the model once with its calls recorded; what to note about it."""
    import torch

    from assay.forward_stats import record_forward_stats
    from assay.sources.usercode import guarded

    if opened.model.on_meta:
        return ["no forward statistics: the weights are on the meta device"]
    try:
        with guarded("the forward pass"), torch.no_grad(), record_forward_stats(opened.module):
            opened.module(*found.args, **found.kwargs)
    except AssayError as error:
        return [f"forward statistics are incomplete: {error}"]
    return []


def _with_findings(subject: ExploredModel) -> ExploredModel:
    """The subject with what the rules say of it, unless its document brings findings along."""
    if subject.document.findings:
        return subject
    checked = check_all(subject.document)
    said = f"{checked.rules - len(checked.skipped):,} rules have run and found nothing"
    if checked.skipped:
        said += f"; {len(checked.skipped):,} more would need what was not captured"
    return replace(subject, document=replace(subject.document, findings=checked.findings), no_findings=said)
