"""Runs tensors through their passes on any executor; results stream out as they finish."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

from msgspec import Struct

from assay import host
from assay.checkpoint.statistics.analysis import PassResult, Task, analyse, analyse_here, work
from assay.checkpoint.statistics.chunks import CHUNK_BYTES, Chunk, ChunkPlan, Weight, plan
from assay.checkpoint.statistics.finalize import TARGET_DB, blank
from assay.checkpoint.statistics.gathering import Read
from assay.document.weights import TensorStatistics
from assay.errors import AssayError, UsageError
from assay.messages import first_line

FAILURES = (OSError, EOFError, ValueError, AssayError, BrokenExecutor)
"""What reading a chunk may raise; anything else is a mistake in the program and is not hidden."""
BATCH = 32
BATCH_BYTES = 1 << 20
"""Small tensors are given out together, so many or so large: giving one out costs as much as a tiny one's work."""

Postprocess = Callable[[Weight, TensorStatistics, Read], TensorStatistics]
"""Adds to the statistics of a tensor what else is wanted of it."""


class EngineOptions(Struct, frozen=True):
    """How a pass over tensors runs."""

    workers: int = 0
    """0 is one for each processor."""
    chunk_bytes: int = CHUNK_BYTES
    target_db: float = TARGET_DB
    retries: int = 2

    @property
    def width(self) -> int:
        """How many chunks are under way at once."""
        return 2 * (self.workers or host.processors())


class RetryingReader(Struct, frozen=True):
    """A reader that tries again before it gives up."""

    read: Read
    retries: int

    def __call__(self, chunk: Chunk) -> bytes:
        for _ in range(self.retries):
            try:
                return self.read(chunk)
            except FAILURES:
                continue
        return self.read(chunk)


def run(
    weights: Sequence[Weight],
    read: Read,
    options: EngineOptions | None = None,
    executor: Executor | None = None,
    on_bytes: Callable[[int], None] | None = None,
    after: Postprocess | None = None,
) -> Iterator[tuple[int, TensorStatistics]]:
    """The place and statistics of every tensor as it finishes; a failed one carries its problem, others go on.

    `after` adds to the statistics of a tensor, where the executor runs.
    """
    options = options or EngineOptions()
    if executor is not None:
        yield from _run(weights, _Work(read, options, after), executor, on_bytes)
        return
    with ThreadPoolExecutor(options.workers or host.processors()) as own:
        try:
            yield from _run(weights, _Work(read, options, after), own, on_bytes)
        finally:
            own.shutdown(wait=True, cancel_futures=True)


def run_here(
    weights: Sequence[Weight], read: Read, options: EngineOptions, after: Postprocess | None = None
) -> list[tuple[int, TensorStatistics]]:
    """The same in this thread, for workers of a cluster."""
    work = _Work(read, options, after)
    planned = (_planned(index, weight, options) for index, weight in enumerate(weights))
    return list(enumerate(work.one(each) if isinstance(each, ChunkPlan) else each for each in planned))


class _Work(Struct, frozen=True):
    """What is done with tensors; it can be sent to where it is to be done."""

    read: Read
    options: EngineOptions
    after: Postprocess | None

    def __call__(self, plans: Sequence[ChunkPlan]) -> list[TensorStatistics]:
        """The statistics of small tensors, one after the other."""
        return [self.one(planned) for planned in plans]

    def one(self, planned: ChunkPlan) -> TensorStatistics:
        try:
            found = analyse_here(planned, RetryingReader(self.read, self.options.retries), self.options.target_db)
        except FAILURES as error:
            return blank(planned.weight, problem=first_line(error))
        return self.completed(planned.weight, found)

    def completed(self, weight: Weight, found: TensorStatistics) -> TensorStatistics:
        return found if self.after is None or found.problem else self.after(weight, found, self.read)


class _Waiting:
    """Work under way, in the order it was given out, and small tensors that are gathered until they are worth it."""

    def __init__(self, work: _Work, executor: Executor, report: Callable[[int], None]) -> None:
        self._work = work
        self._executor = executor
        self._report = report
        self._queue: deque[tuple[list[tuple[int, ChunkPlan]], Future[list[TensorStatistics]], int]] = deque()
        self._batch: list[tuple[int, ChunkPlan]] = []
        self._sent = 0

    def add(self, index: int, planned: ChunkPlan) -> None:
        """Take a tensor of one chunk."""
        self._batch.append((index, planned))
        # A few tensors are given out one by one, so that each is known as soon as it is done.
        if (
            len(self._batch) >= min(BATCH, 1 + self._sent // BATCH)
            or sum(one.weight.length for _, one in self._batch) >= BATCH_BYTES
        ):
            self.send()

    def send(self) -> None:
        """Give out what was gathered."""
        if self._batch:
            plans = [planned for _, planned in self._batch]
            size = sum(planned.weight.length for planned in plans)
            self._queue.append((self._batch, self._executor.submit(self._work, plans), size))
            self._sent += len(self._batch)
            self._batch = []

    def complete(self, index: int, planned: ChunkPlan, found: TensorStatistics) -> None:
        """Give out what is left to do for a tensor of many chunks; its bytes were reported."""
        future = self._executor.submit(_completed, self._work, planned.weight, found)
        self._queue.append(([(index, planned)], future, 0))

    def ready(self, room: int) -> Iterator[tuple[int, TensorStatistics]]:
        """The results of the oldest, until no more than `room` are under way."""
        while len(self._queue) > room:
            tensors, future, size = self._queue.popleft()
            rows = _result([planned.weight for _, planned in tensors], future)
            yield from zip((index for index, _ in tensors), rows, strict=True)
            self._report(size)


def _run(
    weights: Sequence[Weight], work: _Work, executor: Executor, on_bytes: Callable[[int], None] | None
) -> Iterator[tuple[int, TensorStatistics]]:
    report = on_bytes or (lambda _: None)
    waiting = _Waiting(work, executor, report)
    for index, weight in enumerate(weights):
        planned = _planned(index, weight, work.options)
        if not isinstance(planned, ChunkPlan):
            yield index, planned
            continue
        if len(planned.chunks) <= 1:
            waiting.add(index, planned)
        else:
            waiting.send()
            found = _spread(planned, work.read, work.options, executor, report)
            if work.after is None or found.problem:
                yield index, found
            else:
                waiting.complete(index, planned, found)
        yield from waiting.ready(work.options.width)
    waiting.send()
    yield from waiting.ready(0)


def _completed(work: _Work, weight: Weight, found: TensorStatistics) -> list[TensorStatistics]:
    return [work.completed(weight, found)]


def _planned(index: int, weight: Weight, options: EngineOptions) -> ChunkPlan | TensorStatistics:
    try:
        return plan(index, weight, options.chunk_bytes)
    except UsageError as error:
        return blank(weight, problem=str(error))


def _spread(
    planned: ChunkPlan, read: Read, options: EngineOptions, executor: Executor, report: Callable[[int], None]
) -> TensorStatistics:
    """The statistics of a tensor of many chunks, a bounded number of them under way."""

    def run_all(tasks: Iterable[Task]) -> Iterator[PassResult]:
        waiting: deque[tuple[Task, Future[PassResult]]] = deque()
        reader = RetryingReader(read, options.retries)
        left = iter(tasks)
        try:
            while True:
                while len(waiting) < options.width and (task := next(left, None)) is not None:
                    waiting.append((task, executor.submit(work, task, reader)))
                if not waiting:
                    return
                task, future = waiting.popleft()
                yield future.result()
                if task.request is None:
                    report(task.chunk.bytes)
        finally:
            for _, future in waiting:
                future.cancel()

    try:
        return analyse(planned, run_all, options.target_db)
    except FAILURES as error:
        return blank(planned.weight, problem=first_line(error))


def _result(weights: list[Weight], future: Future[list[TensorStatistics]]) -> list[TensorStatistics]:
    try:
        return future.result()
    except BrokenExecutor as error:
        return [blank(weight, problem=first_line(error)) for weight in weights]
