"""Running an engine over the tensors of a checkpoint, with a journal, progress and spectra beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from assay import host
from assay.checkpoint.entries import ByteRange, Entry
from assay.checkpoint.files import Files
from assay.checkpoint.statistics import kernel
from assay.checkpoint.statistics.analysis import analyse_here
from assay.checkpoint.statistics.chunks import CHUNK_BYTES, Weight, plan
from assay.checkpoint.statistics.engine import FAILURES, EngineOptions, Postprocess, run
from assay.checkpoint.statistics.finalize import TARGET_DB
from assay.checkpoint.statistics.gathering import Read
from assay.checkpoint.statistics.journal import Journal
from assay.checkpoint.statistics.ray_engine import run_on_ray
from assay.checkpoint.statistics.settings import Progress, StatisticsSettings
from assay.checkpoint.statistics.spectral import with_spectrum
from assay.document.weights import TensorStatistics
from assay.errors import UsageError

Tally = Callable[[int], None]
"""Told how many bytes more are done."""
Results = Iterator[tuple[int, TensorStatistics]]

MOST_WORKERS = 16
"""More do not read faster, and each holds chunks in memory."""
BUFFERS = 32 << 20
"""Bytes of chunks under way at once, however many workers there are."""
LEAST_CHUNK = 1 << 20


def statistics(
    entries: Sequence[Entry],
    read: Read,
    settings: StatisticsSettings,
    journal: Journal | None = None,
    progress: Progress | None = None,
    files: Files | None = None,
) -> list[TensorStatistics]:
    """What is known of every entry, in their order; finished ones are in the journal, should this be interrupted."""
    if settings.engine not in _ENGINES:
        raise UsageError(f"engine {settings.engine!r} was given: one of {', '.join(_ENGINES)} is wanted")
    found = {} if journal is None else journal.begin(entries, _settled(settings), files or Files())
    left = [index for index in range(len(entries)) if index not in found]
    weights = [_weight(entries[index]) for index in left]
    tally = _tally(progress, sum(weight.length for weight in weights if not weight.problem))
    try:
        for place, row in _ENGINES[settings.engine](weights, read, settings, tally):
            index = left[place]
            found[index] = _completed(entries[index], row, read)
            if journal is not None and not row.problem:
                journal.add(index, found[index])
    except KeyboardInterrupt:
        if journal is not None:
            journal.leave()
        raise
    if journal is not None:
        journal.close()
    return [found[index] for index in range(len(entries))]


def _tally(progress: Progress | None, total: int) -> Tally:
    """Adds up what is done and tells it."""
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        if progress is not None:
            progress(min(done, total), total)

    return add


def _threads(weights: Sequence[Weight], read: Read, settings: StatisticsSettings, tally: Tally) -> Results:
    options = _options(settings)
    return run(weights, read, options, on_bytes=tally, after=_after(settings, options.workers))


def _ray(weights: Sequence[Weight], read: Read, settings: StatisticsSettings, tally: Tally) -> Results:
    # Each task works chunk by chunk, so its chunks may be of the usual size.
    options = EngineOptions(target_db=_target(settings))
    after = _after(settings, 1)
    for index, row in run_on_ray(weights, read, options, settings.address, settings.workers, after):
        tally(weights[index].length)
        yield index, row


_ENGINES: dict[str, Callable[[Sequence[Weight], Read, StatisticsSettings, Tally], Results]] = {
    "threads": _threads,
    "ray": _ray,
}


def _options(settings: StatisticsSettings) -> EngineOptions:
    workers = settings.workers or min(MOST_WORKERS, host.processors())
    options = EngineOptions(workers=workers, target_db=_target(settings))
    # The numpy reference makes temporaries of many times a chunk's size.
    chunk = max(LEAST_CHUNK, min(CHUNK_BYTES, BUFFERS // options.width)) if kernel.is_native() else LEAST_CHUNK
    return replace(options, chunk_bytes=chunk)


def _after(settings: StatisticsSettings, at_once: int) -> Postprocess | None:
    """What is done with a tensor once its statistics are known."""
    return partial(with_spectrum, at_once=at_once) if settings.spectral else None


def _target(settings: StatisticsSettings) -> float:
    return TARGET_DB if settings.sqnr_db is None else settings.sqnr_db


def _settled(settings: StatisticsSettings) -> tuple[object, ...]:
    """What the figures depend on besides the bytes."""
    return kernel.name(), settings.spectral, _target(settings)


def _weight(entry: Entry) -> Weight:
    span = entry.span
    return Weight(
        names=entry.names,
        dtype=entry.coded.dtype or entry.dtype if entry.coded else entry.dtype,
        shape=entry.shape,
        file=span.file if span else "",
        offset=span.offset if span else 0,
        length=span.length if span else 0,
        strides=entry.strides if span else None,
        storage_offset=entry.storage_offset,
        alignment=entry.alignment,
        problem=entry.problem,
        coded=entry.coded,
    )


def _completed(entry: Entry, row: TensorStatistics, read: Read) -> TensorStatistics:
    """The row with what the engine does not know: the bytes as stored, of a view those of its own elements."""
    # Integers' bounds become floats here as they would in a journal: a resumed pass must tell the same.
    row = replace(row, bytes=entry.bytes, dtype=entry.dtype, min=_as_float(row.min), max=_as_float(row.max))
    if entry.coded is not None and entry.coded.dtype and row.count and not row.problem:
        row = _with_stored_bytes(entry.coded.span, row, read)
    return row


def _with_stored_bytes(span: ByteRange, row: TensorStatistics, read: Read) -> TensorStatistics:
    """The row of dequantised values with the entropy and the digest of the bytes in the file, and a note on it."""
    stored = Weight(row.names, "uint8", (span.length,), span.file, span.offset, span.length)
    try:
        found = analyse_here(plan(0, stored), read)
    except FAILURES as error:
        return replace(row, problem=f"its stored bytes cannot be read: {error}")
    bits = None if found.entropy_bits is None else found.entropy_bits * span.length / row.count
    return replace(
        row,
        note=f"statistics of the dequantised values; {8 * span.length / row.count:.4g} bits a weight in the file",
        content=found.content,
        entropy_bytes=found.entropy_bytes,
        entropy_bits=bits,
    )


def _as_float(value: float | None) -> float | None:
    return None if value is None else float(value)
