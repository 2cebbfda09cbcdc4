"""Whatever is given, as something to explore."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assay.analysis.cost.totals import with_cost
from assay.checkpoint.remote import is_url
from assay.document.document import Document
from assay.errors import AssayError, InputsError, PartialError, ReadError, UsageError
from assay.sources.kinds import kind_of
from assay.sources.open import Opened, open_model
from assay.sources.specifier import parse
from assay.views.tui.subject import Subject, of_document

_WEIGHTS = ("saved", "scripted", "pickled")
"""Files that hold tensors and perhaps code: without trust they are read as checkpoints."""
_INDEX = ".index.json"


def subject_of(
    target: Any,
    inputs: Any = None,
    *,
    run: bool | None = None,
    stats: bool = False,
    notes: tuple[str, ...] = (),
    trust: bool = False,
    model_args: dict[str, Any] | None = None,
    **options: Any,
) -> Subject:
    """What `target` is, made ready to be looked at.

    A pass is watched where inputs are given; for a name also without, with inferred ones (`run=False` does not),
    and where that fails the tree opens all the same. Other options are those of `observe`.
    """
    found = _subject(target, inputs, run, stats, trust, model_args, options)
    return _with_findings(replace(found, notes=(*notes, *found.notes)))


def _subject(
    target: Any,
    inputs: Any,
    run: bool | None,
    stats: bool,
    trust: bool,
    model_args: dict[str, Any] | None,
    options: dict[str, Any],
) -> Subject:
    if isinstance(target, Document):
        return _of_saved(target)
    is_name = isinstance(target, (str, os.PathLike))
    if is_name and _is_checkpoint(os.fspath(target), trust=trust):
        from assay.api.explore.checkpoints import checkpoint_subject

        return checkpoint_subject(os.fspath(target))
    try:
        opened = _opened(target, is_name, model_args, trust)
    except ReadError as error:
        if not (is_name and os.path.isdir(target)):
            raise
        return _of_folder(os.fspath(target), error)
    if opened is None:
        from assay.api.explore.live import live_subject

        _refuse_inputs(inputs, target)
        return live_subject(target)
    if opened.document is not None:
        return _of_saved(opened.document)
    wanted = run if run is not None else inputs is not None or is_name
    return _of_module(opened, inputs, options, wanted=wanted, must=inputs is not None, stats=stats)


def _opened(target: Any, is_name: bool, model_args: dict[str, Any] | None, trust: bool) -> Opened | None:
    """The model that `target` is or names; None where it is an object that may hold some."""
    from assay.sources.needs import is_module

    # A pipeline can be called too, and is no maker of models.
    if is_name or is_module(target) or isinstance(target, type) or inspect.isroutine(target):
        return open_model(target, model_args=model_args, trust=trust)
    return None


def _of_folder(place: str, error: ReadError) -> Subject:
    """The tensors in a folder whose config could not be made into a model; the first error where there are none."""
    from assay.api.explore.checkpoints import checkpoint_subject

    try:
        found = checkpoint_subject(place)
    except ReadError:
        raise error from None
    return replace(found, notes=(f"its tensors alone: {error}", *found.notes))


def _refuse_inputs(inputs: Any, target: Any) -> None:
    if inputs is not None:
        raise UsageError(f"inputs were given for a {type(target).__name__}, which cannot be run as one model")


def _is_checkpoint(place: str, *, trust: bool) -> bool:
    """Whether a path or URL holds tensors rather than a model or a document."""
    if is_url(place) or place.endswith(_INDEX):
        return True
    named = parse(place)
    if not isinstance(named, Path):
        return False
    if named.is_dir():
        return not (named / "config.json").exists()
    try:
        return not trust and kind_of(named) in _WEIGHTS
    except ReadError:
        # Not a model: the reader of checkpoints knows more formats, and says why where it is none of those.
        return True


def _of_saved(document: Document) -> Subject:
    """A document with its cost; one that holds tensors alone is shown as a checkpoint."""
    if document.weights is not None and not document.tensors:
        from assay.api.explore.checkpoints import weights_subject

        return weights_subject(document)
    return of_document(document if document.cost is not None else with_cost(document))


def _of_module(
    opened: Opened, inputs: Any, options: dict[str, Any], *, wanted: bool, must: bool, stats: bool
) -> Subject:
    from assay.api.explore.live import live_subject

    notes: list[str] = []
    document = None
    if wanted:
        document, told = _watched(opened, inputs, options, must=must)
        notes += told
    if stats:
        notes += _recorded(opened, inputs)
    return replace(live_subject(opened.module, document, opened.origin), notes=tuple(notes))


def _watched(
    opened: Opened, inputs: Any, options: dict[str, Any], *, must: bool
) -> tuple[Document | None, list[str]]:
    """The document of one pass, and what is to be told; None where it could not run and need not."""
    from assay.api.observe import observe

    try:
        document: Document = observe(opened, inputs, **options)
    except (InputsError, PartialError, ReadError) as error:
        if must:
            raise
        return None, [f"not run, so without FLOPs and shapes: {error}"]
    told = []
    if document.run.failure is not None:
        told.append(f"the forward pass stopped in {document.run.failure.module}: {document.run.failure.error}")
    elif document.run.inputs_from.startswith("inferred"):
        told.append(f"inputs {document.run.inputs_from}")
    return document, told


def _recorded(opened: Opened, inputs: Any) -> list[str]:
    """Run the model once with its calls recorded; what is to be told."""
    import torch

    from assay.forward_stats import record_forward_stats
    from assay.sources.inputs import find_inputs
    from assay.sources.usercode import guarded

    if opened.weights != "real" or opened.module is None:
        return ["no forward statistics: the weights are on the meta device"]
    try:
        given = find_inputs(inputs, opened)
        with guarded("the forward pass"), torch.no_grad(), record_forward_stats(opened.module):
            opened.module(*given.args, **given.kwargs)
    except AssayError as error:
        return [f"forward statistics are not complete: {error}"]
    return []


def _with_findings(subject: Subject) -> Subject:
    """The subject with what the rules say of it, unless its document brings findings along."""
    if subject.document.findings:
        return subject
    from assay.findings.engine import check_all

    checked = check_all(subject.document)
    said = f"{checked.rules - len(checked.skipped):,} rules have run and found nothing"
    if checked.skipped:
        said += f"; {len(checked.skipped):,} more would need what was not captured"
    return replace(subject, document=replace(subject.document, findings=checked.findings), no_findings=said)
