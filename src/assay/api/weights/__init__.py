"""WEIGHING: checkpoints and their statistics put together, from any source to a report of its tensors.

Belongs here: what opens a source, runs an engine over it, keeps a journal. Does not: formats of files, figures
themselves, or how they are shown. Nothing here imports torch or, for a listing, numpy.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from msgspec.structs import replace

from assay.api.weights.source import Source, open_source
from assay.checkpoint.entries import Entry
from assay.checkpoint.statistics.journal import Journal
from assay.checkpoint.statistics.settings import Progress, Settings
from assay.document.document import Document, Machine, Origin, Run
from assay.document.files import SUFFIXES, load
from assay.document.weights import TensorStatistics, WeightsReport
from assay.errors import ReadError, UsageError

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
    """Every statistic of every tensor in a file, folder, URL or live module; a saved document's as they were.

    `resume` names a journal of finished tensors: what is in it is not read again. `filter` is a pattern that one of
    a tensor's names must hold. What could not be analysed is in `failures` and in the tensors' `problem`.
    """
    settings = Settings(engine, workers, address, spectral, sqnr_db)
    found = weigh(
        source, settings=settings, resume=resume, progress=progress, filter=filter, trust=trust, lenient=lenient
    ).weights
    assert found is not None
    return found


def weigh(
    source: Any,
    *,
    settings: Settings | None = None,
    resume: Resume | None = None,
    progress: Progress | None = None,
    filter: str | None = None,
    trust: bool = False,
    lenient: bool = False,
    listing: bool = False,
) -> Document:
    """A document whose `weights` hold the report; with `listing` what headers tell alone, without statistics."""
    settings = settings or Settings()
    chosen = _matching(filter)
    asked = _asked(settings, resume)
    if (saved := _saved(source)) is not None:
        if asked or trust or lenient:
            wrong = [*asked, *(name for name, given in (("trust", trust), ("lenient", lenient)) if given)]
            raise UsageError(f"{source} is a saved document: {', '.join(wrong)} needs the checkpoint itself")
        return saved if filter is None else _narrowed(saved, chosen)
    if listing and asked:
        raise UsageError(f"a listing reads headers alone: {', '.join(asked)} goes with the statistics")
    opened = open_source(source, lenient=lenient)
    if trust and opened.runs_code:
        from assay.api.weights.trusted import weigh_trusted

        if "resume" in asked:
            raise UsageError("a module that is loaded with trust is weighed in one go: resume goes without trust")
        return _document(opened, weigh_trusted(opened.checkpoint.path, settings, filter, listing))
    entries = [entry for entry in opened.checkpoint.entries if chosen(entry)]
    if listing:
        listed = _report(opened, [_listed(entry) for entry in entries])
        # That a tensor's numbers cannot be read is no failure where nobody asked for them.
        return _document(opened, replace(listed, failures=opened.checkpoint.failures))
    from assay.checkpoint.statistics.run import kernel_name, statistics

    journal = resume if isinstance(resume, Journal) or resume is None else Journal(resume)
    rows = statistics(entries, opened.read, settings, journal, progress)
    return _document(opened, _report(opened, rows, kernel_name()))


def _asked(settings: Settings, resume: Resume | None) -> list[str]:
    """The settings that want numbers read, by name."""
    usual = Settings()
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
    from assay.views.text.params_lines import shards_lost

    was = document.weights
    assert was is not None
    rows = [row for row in was.tensors if chosen(row)]
    lost = shards_lost(was)
    now = summarize(rows, path=was.path, format=was.format, kernel=was.kernel, notes=was.notes, failures=lost)
    return replace(document, weights=now)


def _matching(pattern: str | None) -> Callable[[Named], bool]:
    try:
        search = re.compile(pattern or "").search
    except re.error as error:
        raise UsageError(f"{pattern!r} is no regular expression: {error}") from error
    return lambda named: any(search(name) for name in named.names)


def _saved(source: Any) -> Document | None:
    """The saved document that `source` names, if it is one."""
    if not isinstance(source, (str, os.PathLike)) or not os.fspath(source).endswith(SUFFIXES):
        return None
    document = load(os.fspath(source))
    if document.weights is None:
        raise ReadError(f"{os.fspath(source)} holds no statistics of weights: save one with assay params --save")
    return document


def _listed(entry: Entry) -> TensorStatistics:
    count = 1
    for size in entry.shape:
        count *= size
    return TensorStatistics(
        entry.names, entry.dtype, entry.shape, entry.bytes, count, entry.alignment, problem=entry.problem
    )


def _report(opened: Source, rows: list[TensorStatistics], kernel: str = "") -> WeightsReport:
    from assay.checkpoint.statistics.summary import summarize

    checkpoint = opened.checkpoint
    return summarize(
        rows,
        path=checkpoint.path,
        format=checkpoint.format,
        kernel=kernel,
        notes=checkpoint.notes,
        failures=checkpoint.failures,
    )


def _document(opened: Source, report: WeightsReport) -> Document:
    checkpoint = opened.checkpoint
    now = datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
    return Document(
        origin=Origin(opened.kind, checkpoint.path, os.path.basename(checkpoint.path.rstrip("/\\"))),
        machine=Machine(python=platform.python_version(), system=f"{platform.system()} {platform.machine()}"),
        run=Run("none", timestamp=now),
        modules=opened.modules,
        weights=report,
    )
