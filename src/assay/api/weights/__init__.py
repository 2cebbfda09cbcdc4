"""WEIGHT STATISTICS: from any source to a report on its tensors.

This package opens a source, runs an engine over its tensors, and keeps a journal. File formats, the statistics
themselves and their display belong elsewhere. Nothing here imports torch, or numpy for a listing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from assay import host, units
from assay.api.arguments import check_callable, check_number, check_text, check_whole, path_of
from assay.api.weights.source import TensorSource, tensors_of
from assay.checkpoint.entries import Entry
from assay.checkpoint.statistics.journal import Journal
from assay.checkpoint.statistics.settings import Progress, StatisticsSettings
from assay.document.document import Document, Origin, Run
from assay.document.roles import UNLISTED
from assay.document.this_machine import this_machine
from assay.document.weights import TensorStatistics, WeightsReport
from assay.errors import ReadError, UsageError
from assay.messages import as_utf8, one_line, plural
from assay.sources.open import open_source
from assay.sources.opened import Opened

Resume = str | os.PathLike[str] | Journal
Named = Entry | TensorStatistics
_NOTHING: dict[str, float] = {}
"""Shared by all listed tensors: a dictionary each would take a fifth of their memory."""
_ROW_BYTES = 5_400
"""Memory that the statistics of one tensor take."""
_ROWS_BYTES = 96 << 20
"""Memory that all statistics may take, however small the file is."""
_TENSORS_PER_ROWS = 16
"""They may take more if the tensors are at least this many times as large."""


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
    """Compute statistics of every tensor in a file, directory, URL, live model or state dict; no code from it runs.

    Args:
        source: Anything `assay.open` accepts: a checkpoint, a live model, a state dict (also nested, or of numpy
            arrays), a directory, a URL or a saved document. Statistics in a saved document are returned as they are.
        engine: `"threads"` works in this process, `"ray"` on a Ray cluster.
        workers: Number of threads, or of CPUs of a local Ray cluster. Default: one per CPU, at most 16 threads.
        address: The Ray cluster to connect to, if `engine` is `"ray"`. If None, a local one is started.
        spectral: Also compute spectral norms and ranks, which reads matrices several times.
        sqnr_db: The signal-to-quantization-noise ratio, in decibels, that `bits_needed` must keep. Default: 30.
        resume: A journal file of finished tensors. Tensors in it are not read again, and newly finished ones are
            added. If None, no journal is kept.
        progress: Called with the bytes processed so far and the total bytes. Default: no progress reports.
        filter: A regular expression; only tensors with a matching name are analysed. Default: all tensors.
        trust: Load a pickled or scripted module with torch, which runs its code, in a separate process.
        lenient: Accept safetensors files with bytes that belong to no tensor.

    Returns:
        The report, with one row per tensor. Tensors that could not be analysed have a `problem`, and all problems are
        listed in `failures`.

    Raises:
        UsageError: An argument is not valid, or does not apply to this source.
        ReadError: The source cannot be read, or has no weights.
        UserCodeError: With `trust`, the code of the module raised an exception.
    """
    settings = StatisticsSettings(engine, workers, address, spectral, sqnr_db)
    report = weights_document(
        source, settings=settings, resume=resume, progress=progress, filter=filter, trust=trust, lenient=lenient
    ).weights
    assert report is not None
    return report


def weights_document(
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
    """A document with the report in its `weights`; with `listing`, only the headers are read, without statistics."""
    settings = settings or StatisticsSettings()
    _check(settings, resume, progress)
    matches = _name_filter(filter)
    reading_options = _reading_options(settings, resume)
    opened = open_source(source)
    if opened.saved is not None and opened.stored is None:
        saved = _with_statistics(opened)
        if reading_options or trust or lenient:
            flags = [name for name, is_set in (("trust", trust), ("lenient", lenient)) if is_set]
            names = ", ".join([*reading_options, *flags])
            raise UsageError(
                f"{opened.origin.location} is a saved document: give the checkpoint itself to use {names}"
            )
        return saved if filter is None else _filtered(saved, matches)
    if listing and reading_options:
        raise UsageError(f"a listing reads only headers: {', '.join(reading_options)} requires statistics")
    tensors = tensors_of(opened, lenient=lenient)
    if trust and tensors.runs_code:
        from assay.api.weights.trusted import trusted_report

        if "resume" in reading_options:
            raise UsageError("resume cannot be combined with trust")
        report = trusted_report(tensors.checkpoint.path, tensors.root, settings, filter, listing)
        return _document(opened, tensors, _with_unlisted(report, tensors, matches, settings, listing=listing))
    entries = [entry for entry in tensors.checkpoint.entries if matches(entry)]
    if listing:
        listed = _report(tensors, [_listed(entry) for entry in entries])
        # A tensor whose values cannot be read is not a failure if only a listing was requested.
        return _document(opened, tensors, replace(listed, failures=listed.files_lost))
    from assay.checkpoint.statistics import kernel
    from assay.checkpoint.statistics.run import spectral_limit, statistics

    journal = resume if isinstance(resume, Journal) or resume is None else Journal(resume)
    if tensors.in_memory:
        if settings.engine == "ray":
            raise UsageError("engine 'ray' cannot read tensors in memory (they are in this process): use 'threads'")
        if "resume" in reading_options:
            raise UsageError(f"resume requires a checkpoint file, got {one_line(opened.origin.location)}")
        journal = None
    _refuse_tiny(tensors, entries)
    rows = statistics(entries, tensors.read, settings, journal, progress, opened.files)
    report = _report(tensors, rows, kernel.name())
    notes = _left_out(*spectral_limit(entries, settings), settings, opened)
    return _document(opened, tensors, replace(report, notes=(*report.notes, *notes)))


def _refuse_tiny(tensors: TensorSource, entries: Sequence[Entry]) -> None:
    """Raise `ReadError` if there are so many tiny tensors that their statistics take more memory than they do."""
    stored = sum(entry.bytes for entry in entries if entry.shares_storage_with is None)
    if len(entries) * _ROW_BYTES > max(_ROWS_BYTES, stored // _TENSORS_PER_ROWS):
        average = units.size(stored // len(entries))
        raise ReadError(
            f"{one_line(tensors.checkpoint.path)} has {len(entries):,} tensors of {average} on average, too many and "
            "too small to analyse: list them (--list), or choose some (--filter)"
        )


def _left_out(largest: int | None, count: int, settings: StatisticsSettings, opened: Opened) -> tuple[str, ...]:
    """A note on the matrices that were too large for the limit on spectra, if there are any."""
    if largest is None or not count:
        return ()
    larger = f" of more than {units.count(largest)} elements" if largest else ""
    budget = units.count(settings.spectral_elements)
    command = shlex.join(["assay", "params", opened.origin.location, "--spectral"])
    return (
        f"spectral norms of {plural(count, 'matrix', 'matrices')}{larger} were not computed "
        f"(limit: {budget} elements in all); to compute all: {command}",
    )


def _check(settings: StatisticsSettings, resume: Any, progress: Any) -> None:
    """Raise UsageError for arguments that are not valid."""
    check_text("engine", settings.engine, "threads")
    check_whole("workers", settings.workers, optional=True)
    check_number("sqnr_db", settings.sqnr_db, optional=True)
    check_callable("progress", progress, optional=True)
    if resume is not None and not isinstance(resume, Journal):
        path_of("resume", resume)


def _reading_options(settings: StatisticsSettings, resume: Resume | None) -> list[str]:
    """The names of the options in use that require reading the values of tensors."""
    default = StatisticsSettings()
    names = {
        "engine": "engine",
        "workers": "workers",
        "address": "address",
        "spectral": "spectral",
        "sqnr_db": "sqnr",
    }
    options = [name for field, name in names.items() if getattr(settings, field) != getattr(default, field)]
    resumes = resume.resumes if isinstance(resume, Journal) else resume is not None
    return [*options, "resume"] if resumes else options


def _with_unlisted(
    report: WeightsReport,
    tensors: TensorSource,
    matches: Callable[[Named], bool],
    settings: StatisticsSettings,
    *,
    listing: bool,
) -> WeightsReport:
    """The report on a loaded module with the file's tensors that are neither parameters nor buffers."""
    listed = {name for row in report.tensors for name in row.names}
    packed = tensors.checkpoint.format == "torchscript"  # such as weights of quantized layers
    entries = [
        entry
        for entry in tensors.checkpoint.entries
        if matches(entry) and (entry.role in UNLISTED or (packed and listed.isdisjoint(entry.names)))
    ]
    if not entries:
        return report
    if listing:
        return summary_of([*report.tensors, *map(_listed, entries)], report)
    from assay.checkpoint.statistics.run import statistics

    return summary_of([*report.tensors, *statistics(entries, tensors.read, settings)], report)


def _filtered(document: Document, matches: Callable[[Named], bool]) -> Document:
    """The document with only the matching tensors."""
    report = document.weights
    assert report is not None
    return replace(document, weights=summary_of([row for row in report.tensors if matches(row)], report))


def summary_of(rows: list[TensorStatistics], report: WeightsReport) -> WeightsReport:
    """The report about these rows instead of its own."""
    from assay.checkpoint.statistics.summary import summarize

    return summarize(
        rows,
        path=report.path,
        format=report.format,
        kernel=report.kernel,
        notes=report.notes,
        files_lost=report.files_lost,
    )


def _name_filter(pattern: str | None) -> Callable[[Named], bool]:
    """A predicate: whether one of a tensor's names matches the regular expression."""
    check_text("filter", pattern, r"\.weight$", optional=True)
    try:
        search = re.compile(pattern or "").search
    except re.error as error:
        raise UsageError(f"{pattern!r} is not a valid regular expression: {error}") from error
    return lambda named: any(search(name) for name in named.names)


def _with_statistics(opened: Opened) -> Document:
    """The saved document; raises ReadError if it has no weight statistics."""
    document = opened.document
    if document is None or document.weights is None:
        raise ReadError(
            f"{opened.origin.location} has no weight statistics: `assay params CHECKPOINT --save FILE` saves some"
        )
    return document


def _listed(entry: Entry) -> TensorStatistics:
    """The row of a tensor from its header, without statistics."""
    count = 1
    for size in entry.shape:
        count *= size
    return TensorStatistics(
        entry.names,
        entry.dtype,
        entry.shape,
        entry.bytes,
        count,
        entry.alignment,
        problem=entry.problem,
        role=entry.role,
        n_of_m=_NOTHING,
    )


def _report(tensors: TensorSource, rows: list[TensorStatistics], kernel: str = "") -> WeightsReport:
    from assay.checkpoint.statistics.summary import summarize

    checkpoint = tensors.checkpoint
    return summarize(
        rows,
        path=as_utf8(checkpoint.path),
        format=checkpoint.format,
        kernel=kernel,
        notes=checkpoint.notes,
        files_lost=checkpoint.failures,
    )


def _document(opened: Opened, tensors: TensorSource, report: WeightsReport) -> Document:
    path = as_utf8(tensors.checkpoint.path)
    stored = Origin("file", path, os.path.basename(path.rstrip("/\\")))
    return Document(
        origin=opened.origin if tensors.in_memory else stored,
        machine=this_machine(),
        run=Run("none", timestamp=host.now()),
        modules=tensors.modules,
        weights=report,
    )
