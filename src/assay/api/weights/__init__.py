"""WEIGHING: checkpoints and their statistics put together, from any source to a report of its tensors.

Belongs here: what opens a source, runs an engine over it, keeps a journal. Does not: formats of files, figures
themselves, or how they are shown. Nothing here imports torch or, for a listing, numpy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from assay import host
from assay.api.weights.source import TensorSource, tensors_of
from assay.checkpoint.entries import Entry
from assay.checkpoint.statistics.journal import Journal
from assay.checkpoint.statistics.settings import Progress, StatisticsSettings
from assay.document.document import Document, Origin, Run
from assay.document.this_machine import this_machine
from assay.document.weights import TensorStatistics, WeightsReport
from assay.errors import ReadError, UsageError
from assay.sources.open import open_source
from assay.sources.opened import Opened

Resume = str | os.PathLike[str] | Journal
Named = Entry | TensorStatistics


def analyze_weights(
    source: Any,
    *,
    engine: str = "threads",
    workers: int | None = None,
    address: str | None = None,
    spectral: bool = False,
    sqnr_db: float | None = None,
    resume: Resume | None = None,
    progress: Progress | None = None,
    filter: str | None = None,
    trust: bool = False,
    lenient: bool = False,
) -> WeightsReport:
    """Statistics over all values of every tensor in a file, folder, URL or live model, running none of its code.

    What could not be analysed is listed in the report's `failures` and in the `problem` of each tensor. The
    statistics in a saved document are returned as they are.

    Args:
        source: Anything `assay.open` takes: a checkpoint, a live model, a folder, a URL, a saved document.
        engine: `"threads"`, or `"ray"` for a cluster.
        workers: Threads, or processors of a local Ray cluster; None uses one per processor, up to 16.
        address: The Ray cluster to use; None starts one here.
        spectral: Compute spectral norms and ranks too, which reads matrices several times.
        sqnr_db: The signal-to-noise ratio that `bits_needed` keeps, in decibels; None is 30.
        resume: A journal of finished tensors: what it holds is not read again.
        progress: Called with the bytes that are done and the bytes in all.
        filter: A regular expression that one of a tensor's names must match.
        trust: Load a pickled or scripted module for real, in a process of its own, and analyse what it holds.
        lenient: Accept a safetensors file with bytes that belong to no tensor.
    """
    settings = StatisticsSettings(engine, workers, address, spectral, sqnr_db)
    found = weigh(
        source, settings=settings, resume=resume, progress=progress, filter=filter, trust=trust, lenient=lenient
    ).weights
    assert found is not None
    return found


def weigh(
    source: Any,
    *,
    settings: StatisticsSettings | None = None,
    resume: Resume | None = None,
    progress: Progress | None = None,
    filter: str | None = None,
    trust: bool = False,
    lenient: bool = False,
    listing: bool = False,
) -> Document:
    """A document whose `weights` hold the report; with `listing` what headers tell alone, without statistics."""
    settings = settings or StatisticsSettings()
    chosen = _matching(filter)
    asked = _asked(settings, resume)
    opened = open_source(source)
    if opened.saved is not None and opened.stored is None:
        saved = _with_statistics(opened)
        if asked or trust or lenient:
            wrong = [*asked, *(name for name, given in (("trust", trust), ("lenient", lenient)) if given)]
            raise UsageError(
                f"{opened.origin.location} is a saved document: {', '.join(wrong)} needs the checkpoint itself"
            )
        return saved if filter is None else _narrowed(saved, chosen)
    if listing and asked:
        raise UsageError(f"a listing reads headers alone: {', '.join(asked)} goes with the statistics")
    tensors = tensors_of(opened, lenient=lenient)
    if trust and tensors.runs_code:
        from assay.api.weights.trusted import weigh_trusted

        if "resume" in asked:
            raise UsageError("--resume cannot be combined with --trust")
        return _document(opened, tensors, weigh_trusted(tensors.checkpoint.path, settings, filter, listing))
    entries = [entry for entry in tensors.checkpoint.entries if chosen(entry)]
    if listing:
        listed = _report(tensors, [_listed(entry) for entry in entries])
        # That a tensor's values cannot be read is not a failure where only a listing was requested.
        return _document(opened, tensors, replace(listed, failures=listed.files_lost))
    from assay.checkpoint.statistics import kernel
    from assay.checkpoint.statistics.run import statistics

    journal = resume if isinstance(resume, Journal) or resume is None else Journal(resume)
    if tensors.in_memory:
        if settings.engine == "ray":
            raise UsageError("engine 'ray' cannot read a live module: its tensors are in this process, use 'threads'")
        if "resume" in asked:
            raise UsageError("a live module cannot be resumed: its tensors are in this process")
        journal = None
    rows = statistics(entries, tensors.read, settings, journal, progress, opened.files)
    return _document(opened, tensors, _report(tensors, rows, kernel.name()))


def _asked(settings: StatisticsSettings, resume: Resume | None) -> list[str]:
    """The settings that want numbers read, by name."""
    usual = StatisticsSettings()
    names = {
        "engine": "engine",
        "workers": "workers",
        "address": "address",
        "spectral": "spectral",
        "sqnr_db": "sqnr",
    }
    asked = [name for field, name in names.items() if getattr(settings, field) != getattr(usual, field)]
    resumes = resume.resumes if isinstance(resume, Journal) else resume is not None
    return [*asked, "resume"] if resumes else asked


def _narrowed(document: Document, chosen: Callable[[Named], bool]) -> Document:
    """The document with those of its tensors alone that were chosen."""
    from assay.checkpoint.statistics.summary import summarize

    was = document.weights
    assert was is not None
    rows = [row for row in was.tensors if chosen(row)]
    now = summarize(
        rows, path=was.path, format=was.format, kernel=was.kernel, notes=was.notes, files_lost=was.files_lost
    )
    return replace(document, weights=now)


def _matching(pattern: str | None) -> Callable[[Named], bool]:
    try:
        search = re.compile(pattern or "").search
    except re.error as error:
        raise UsageError(f"{pattern!r} is no regular expression: {error}") from error
    return lambda named: any(search(name) for name in named.names)


def _with_statistics(opened: Opened) -> Document:
    document = opened.document
    if document is None or document.weights is None:
        raise ReadError(
            f"{opened.origin.location} holds no statistics of weights: save some with assay params --save"
        )
    return document


def _listed(entry: Entry) -> TensorStatistics:
    count = 1
    for size in entry.shape:
        count *= size
    return TensorStatistics(
        entry.names, entry.dtype, entry.shape, entry.bytes, count, entry.alignment, problem=entry.problem
    )


def _report(tensors: TensorSource, rows: list[TensorStatistics], kernel: str = "") -> WeightsReport:
    from assay.checkpoint.statistics.summary import summarize

    checkpoint = tensors.checkpoint
    return summarize(
        rows,
        path=checkpoint.path,
        format=checkpoint.format,
        kernel=kernel,
        notes=checkpoint.notes,
        files_lost=checkpoint.failures,
    )


def _document(opened: Opened, tensors: TensorSource, report: WeightsReport) -> Document:
    path = tensors.checkpoint.path
    stored = Origin("file", path, os.path.basename(path.rstrip("/\\")))
    return Document(
        origin=opened.origin if tensors.in_memory else stored,
        machine=this_machine(),
        run=Run("none", timestamp=host.now()),
        modules=tensors.modules,
        weights=report,
    )
