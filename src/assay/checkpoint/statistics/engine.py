"""Computes the statistics of many tensors on any executor; yields results as they finish."""

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
"""Exceptions that reading a chunk may raise; any other one is a bug and is not caught."""
BATCH = 32
BATCH_BYTES = 1 << 20
"""Limits of a batch of small tensors: submitting a task costs as much as analysing a tiny tensor."""

Postprocess = Callable[[Weight, TensorStatistics, Read], TensorStatistics]
"""Adds further results (such as the spectrum) to the statistics of a tensor."""


class EngineOptions(Struct, frozen=True):
    """Settings of an engine."""

    workers: int = 0
    """0: one per processor."""
    chunk_bytes: int = CHUNK_BYTES
    target_db: float = TARGET_DB
    retries: int = 2

    @property
    def width(self) -> int:
        """Maximum number of tasks in progress."""
        return 2 * (self.workers or host.processors())


class RetryingReader(Struct, frozen=True):
    """A reader that retries failed reads."""

    read: Read
    retries: int

    def __call__(self, chunk: Chunk) -> bytes | memoryview:
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
    postprocess: Postprocess | None = None,
) -> Iterator[tuple[int, TensorStatistics]]:
    """Yield the index and statistics of every tensor as it finishes; a failed tensor has its `problem` set.

    Args:
        weights: The tensors.
        read: Reads the bytes of a chunk.
        options: Settings of the engine.
        executor: Runs the tasks; None uses threads.
        on_bytes: Called with the number of bytes that have just been processed.
        postprocess: Adds to the statistics of a tensor; runs on the executor.
    """
    options = options or EngineOptions()
    if executor is not None:
        yield from _run(weights, _Worker(read, options, postprocess), executor, on_bytes)
        return
    with ThreadPoolExecutor(options.workers or host.processors()) as pool:
        try:
            yield from _run(weights, _Worker(read, options, postprocess), pool, on_bytes)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def run_here(
    weights: Sequence[Weight], read: Read, options: EngineOptions, postprocess: Postprocess | None = None
) -> list[tuple[int, TensorStatistics]]:
    """The same in this thread, for the workers of a cluster."""
    worker = _Worker(read, options, postprocess)
    plans = (_plan_or_problem(index, weight, options) for index, weight in enumerate(weights))
    return list(enumerate(worker.one(each) if isinstance(each, ChunkPlan) else each for each in plans))


class _Worker(Struct, frozen=True):
    """Analyses tensors; picklable, so that it can be sent to other processes."""

    read: Read
    options: EngineOptions
    postprocess: Postprocess | None

    def __call__(self, plans: Sequence[ChunkPlan]) -> list[TensorStatistics]:
        """The statistics of a batch of small tensors."""
        return [self.one(planned) for planned in plans]

    def one(self, planned: ChunkPlan) -> TensorStatistics:
        try:
            row = analyse_here(planned, RetryingReader(self.read, self.options.retries), self.options.target_db)
        except FAILURES as error:
            return blank(planned.weight, problem=first_line(error))
        return self.completed(planned.weight, row)

    def completed(self, weight: Weight, row: TensorStatistics) -> TensorStatistics:
        return row if self.postprocess is None or row.problem else self.postprocess(weight, row, self.read)


class _Pending:
    """Submitted tasks in order of submission, and a batch of small tensors that is not yet submitted."""

    def __init__(self, worker: _Worker, executor: Executor, report: Callable[[int], None]) -> None:
        self._worker = worker
        self._executor = executor
        self._report = report
        self._queue: deque[tuple[list[tuple[int, ChunkPlan]], Future[list[TensorStatistics]], int]] = deque()
        self._batch: list[tuple[int, ChunkPlan]] = []
        self._sent = 0

    def add(self, index: int, planned: ChunkPlan) -> None:
        """Add a tensor of one chunk to the batch; submit the batch if it is full."""
        self._batch.append((index, planned))
        # The first tensors are submitted one by one, so that results appear as soon as possible.
        if (
            len(self._batch) >= min(BATCH, 1 + self._sent // BATCH)
            or sum(one.weight.length for _, one in self._batch) >= BATCH_BYTES
        ):
            self.send()

    def send(self) -> None:
        """Submit the batch."""
        if self._batch:
            plans = [planned for _, planned in self._batch]
            size = sum(planned.weight.length for planned in plans)
            self._queue.append((self._batch, self._executor.submit(self._worker, plans), size))
            self._sent += len(self._batch)
            self._batch = []

    def complete(self, index: int, planned: ChunkPlan, row: TensorStatistics) -> None:
        """Submit the postprocessing of a tensor of many chunks, whose bytes have already been reported."""
        future = self._executor.submit(_completed, self._worker, planned.weight, row)
        self._queue.append(([(index, planned)], future, 0))

    def ready(self, limit: int) -> Iterator[tuple[int, TensorStatistics]]:
        """Yield the results of the oldest tasks until at most `limit` are in progress."""
        while len(self._queue) > limit:
            tensors, future, size = self._queue.popleft()
            rows = _result([planned.weight for _, planned in tensors], future)
            yield from zip((index for index, _ in tensors), rows, strict=True)
            self._report(size)


def _run(
    weights: Sequence[Weight], worker: _Worker, executor: Executor, on_bytes: Callable[[int], None] | None
) -> Iterator[tuple[int, TensorStatistics]]:
    report = on_bytes or (lambda _: None)
    pending = _Pending(worker, executor, report)
    for index, weight in enumerate(weights):
        planned = _plan_or_problem(index, weight, worker.options)
        if not isinstance(planned, ChunkPlan):
            yield index, planned
            continue
        if len(planned.chunks) <= 1:
            pending.add(index, planned)
        else:
            pending.send()
            row = _analyse_chunks(planned, worker.read, worker.options, executor, report)
            if worker.postprocess is None or row.problem:
                yield index, row
            else:
                pending.complete(index, planned, row)
        yield from pending.ready(worker.options.width)
    pending.send()
    yield from pending.ready(0)


def _completed(worker: _Worker, weight: Weight, row: TensorStatistics) -> list[TensorStatistics]:
    return [worker.completed(weight, row)]


def _plan_or_problem(index: int, weight: Weight, options: EngineOptions) -> ChunkPlan | TensorStatistics:
    try:
        return plan(index, weight, options.chunk_bytes)
    except UsageError as error:
        return blank(weight, problem=str(error))


def _analyse_chunks(
    planned: ChunkPlan, read: Read, options: EngineOptions, executor: Executor, report: Callable[[int], None]
) -> TensorStatistics:
    """The statistics of a tensor of many chunks, with a bounded number of tasks in progress."""

    def run_all(tasks: Iterable[Task]) -> Iterator[PassResult]:
        waiting: deque[tuple[Task, Future[PassResult]]] = deque()
        reader = RetryingReader(read, options.retries)
        remaining = iter(tasks)
        try:
            while True:
                while len(waiting) < options.width and (task := next(remaining, None)) is not None:
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
