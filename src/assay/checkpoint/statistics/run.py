"""Runs an engine over the tensors of a checkpoint, with a journal, progress and spectra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from msgspec.structs import replace

from assay import host
from assay.checkpoint.entries import ByteRange, Checksum, Entry
from assay.checkpoint.files import Files
from assay.checkpoint.statistics import kernel
from assay.checkpoint.statistics.analysis import analyse_here
from assay.checkpoint.statistics.budget import within_budget
from assay.checkpoint.statistics.checksums import damaged_records, own_checksum
from assay.checkpoint.statistics.chunks import CHUNK_BYTES, Weight, plan
from assay.checkpoint.statistics.engine import FAILURES, EngineOptions, Postprocess, run
from assay.checkpoint.statistics.finalize import TARGET_DB
from assay.checkpoint.statistics.gathering import Read
from assay.checkpoint.statistics.journal import Journal
from assay.checkpoint.statistics.ray_engine import run_on_ray
from assay.checkpoint.statistics.settings import Progress, StatisticsSettings
from assay.checkpoint.statistics.spectral import largest_within, with_spectrum
from assay.document.weights import TensorStatistics
from assay.errors import UsageError

Tally = Callable[[int], None]
"""Called with the number of bytes that have just been processed."""
Results = Iterator[tuple[int, TensorStatistics]]

MAX_WORKERS = 16
"""More workers do not read faster, and each holds chunks in memory."""
BUFFERS = 32 << 20
"""Total bytes of the chunks in progress, whatever the number of workers."""
MIN_CHUNK_BYTES = 1 << 20


def statistics(
    entries: Sequence[Entry],
    read: Read,
    settings: StatisticsSettings,
    journal: Journal | None = None,
    progress: Progress | None = None,
    files: Files | None = None,
) -> list[TensorStatistics]:
    """The statistics of all entries, in order; finished ones are saved in `journal` if the run is interrupted."""
    if settings.engine not in _ENGINES:
        raise UsageError(f"unknown engine {settings.engine!r}: expected {' or '.join(_ENGINES)}")
    rows = {} if journal is None else journal.begin(entries, _settings_key(settings), files or Files())
    remaining = [index for index in range(len(entries)) if index not in rows]
    damaged = damaged_records([entries[index] for index in remaining], read)
    weights = within_budget([_weight(entries[index], damaged) for index in remaining])
    largest, _ = spectral_limit(entries, settings)
    tally = _tally(progress, sum(weight.length for weight in weights if not weight.problem))
    try:
        for position, row in _ENGINES[settings.engine](weights, read, settings, tally, largest):
            index = remaining[position]
            rows[index] = _completed(entries[index], row, read)
            if journal is not None and not row.problem:
                journal.add(index, rows[index])
    except KeyboardInterrupt:
        if journal is not None:
            journal.interrupt()
        raise
    if journal is not None:
        journal.close()
    return [rows[index] for index in range(len(entries))]


def _tally(progress: Progress | None, total: int) -> Tally:
    """A function that adds up processed bytes and reports the progress."""
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        if progress is not None:
            progress(min(done, total), total)

    add(0)
    return add


def spectral_limit(entries: Sequence[Entry], settings: StatisticsSettings) -> tuple[int | None, int]:
    """The most elements of a matrix whose spectrum is computed, None if there is no limit; how many are larger."""
    if not settings.spectral or settings.spectral_elements is None:
        return None, 0
    return largest_within(map(_weight, entries), settings.spectral_elements)


def _threads(
    weights: Sequence[Weight], read: Read, settings: StatisticsSettings, tally: Tally, largest: int | None
) -> Results:
    options = _options(settings)
    postprocess = _postprocess(settings, options.workers, largest)
    return run(weights, read, options, on_bytes=tally, postprocess=postprocess)


def _ray(
    weights: Sequence[Weight], read: Read, settings: StatisticsSettings, tally: Tally, largest: int | None
) -> Results:
    # Each task processes one chunk at a time, so chunks can have the default size.
    options = EngineOptions(target_db=_target(settings))
    postprocess = _postprocess(settings, 1, largest)
    for index, row in run_on_ray(weights, read, options, settings.address, settings.workers, postprocess):
        tally(weights[index].length)
        yield index, row


_ENGINES: dict[str, Callable[[Sequence[Weight], Read, StatisticsSettings, Tally, int | None], Results]] = {
    "threads": _threads,
    "ray": _ray,
}


def _options(settings: StatisticsSettings) -> EngineOptions:
    workers = settings.workers or min(MAX_WORKERS, host.processors())
    options = EngineOptions(workers=workers, target_db=_target(settings))
    # The numpy reference needs temporary arrays many times the size of a chunk.
    chunk = (
        max(MIN_CHUNK_BYTES, min(CHUNK_BYTES, BUFFERS // options.width)) if kernel.is_native() else MIN_CHUNK_BYTES
    )
    return replace(options, chunk_bytes=chunk)


def _postprocess(settings: StatisticsSettings, workers: int, largest: int | None) -> Postprocess | None:
    """The function that completes the statistics of a tensor, if any."""
    return partial(with_spectrum, workers=workers, largest=largest) if settings.spectral else None


def _target(settings: StatisticsSettings) -> float:
    return TARGET_DB if settings.sqnr_db is None else settings.sqnr_db


def _settings_key(settings: StatisticsSettings) -> tuple[object, ...]:
    """The settings that change the results; part of a journal's keys."""
    return kernel.name(), settings.spectral, settings.spectral_elements, _target(settings)


def _weight(entry: Entry, damaged: Mapping[Checksum, str] = MappingProxyType({})) -> Weight:
    span = entry.span
    problem = damaged.get(entry.checksum, "") if entry.checksum is not None else ""
    return Weight(
        names=entry.names,
        dtype=entry.encoded.dtype or entry.dtype if entry.encoded else entry.dtype,
        shape=entry.shape,
        file=span.file if span else "",
        offset=span.offset if span else 0,
        length=span.length if span else 0,
        strides=entry.strides if span else None,
        storage_offset=entry.storage_offset,
        alignment=entry.alignment,
        problem=entry.problem or problem,
        encoded=entry.encoded,
        crc=own_checksum(entry),
    )


def _completed(entry: Entry, row: TensorStatistics, read: Read) -> TensorStatistics:
    """The row with the dtype and size of the entry, which may differ from those of the decoded bytes."""
    # Integer bounds become floats here as they do in a journal: a resumed run must give the same result.
    bounds = {"min": _as_float(row.min), "max": _as_float(row.max)}
    row = replace(row, bytes=entry.bytes, dtype=entry.dtype, role=entry.role, **bounds)
    if entry.encoded is not None and entry.encoded.dtype and row.count and not row.problem:
        row = _with_stored_bytes(entry.encoded.span, row, read)
    return row


def _with_stored_bytes(span: ByteRange, row: TensorStatistics, read: Read) -> TensorStatistics:
    """The row of dequantised values with the coded size and digest of the stored bytes, and a note."""
    stored = Weight(row.names, "uint8", (span.length,), span.file, span.offset, span.length)
    try:
        stored_row = analyse_here(plan(0, stored), read)
    except FAILURES as error:
        return replace(row, problem=f"cannot read its stored bytes: {error}")
    return replace(
        row,
        note=f"statistics of the dequantised values; {8 * span.length / row.count:.4g} bits per weight in the file",
        content=stored_row.content,
        entropy_bytes=stored_row.entropy_bytes,
    )


def _as_float(value: float | None) -> float | None:
    return None if value is None else float(value)
