"""Runs tensors through their passes on any executor; results stream out as they finish."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from os import cpu_count

from msgspec import Struct

from assay.document.weights import TensorStatistics
from assay.errors import AssayError, UsageError
from assay.weights.analysis import Found, Task, analyse, analyse_here, work
from assay.weights.chunks import CHUNK_BYTES, Chunk, Plan, Weight, plan
from assay.weights.finalize import TARGET_DB, blank
from assay.weights.gathering import Read

FAILURES = (OSError, EOFError, ValueError, AssayError, BrokenExecutor)
"""What reading a chunk may raise; anything else is a mistake in the program and is not hidden."""


class Options(Struct, frozen=True):
    """How a pass over tensors runs."""

    workers: int = 0
    """0 is one for each processor."""
    chunk_bytes: int = CHUNK_BYTES
    target_db: float = TARGET_DB
    retries: int = 2

    @property
    def width(self) -> int:
        """How many chunks are under way at once."""
        return 2 * (self.workers or cpu_count() or 1)


class Retrying(Struct, frozen=True):
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
    options: Options | None = None,
    executor: Executor | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, TensorStatistics]]:
    """The place and statistics of every tensor as it finishes; a failed one carries its problem, others go on."""
    options = options or Options()
    if executor is not None:
        yield from _run(weights, read, options, executor, on_bytes)
        return
    with ThreadPoolExecutor(options.workers or cpu_count() or 1) as own:
        try:
            yield from _run(weights, read, options, own, on_bytes)
        finally:
            own.shutdown(wait=True, cancel_futures=True)


def run_here(weights: Sequence[Weight], read: Read, options: Options) -> list[tuple[int, TensorStatistics]]:
    """The same in this thread, for workers of a cluster."""
    found = []
    for index, weight in enumerate(weights):
        planned = _planned(index, weight, options)
        if isinstance(planned, Plan):
            found.append((index, _one(planned, read, options)))
        else:
            found.append((index, planned))
    return found


def _run(
    weights: Sequence[Weight],
    read: Read,
    options: Options,
    executor: Executor,
    on_bytes: Callable[[int], None] | None,
) -> Iterator[tuple[int, TensorStatistics]]:
    report = on_bytes or (lambda _: None)
    waiting: deque[tuple[int, int, Weight, Future[TensorStatistics]]] = deque()

    def ready(room: int) -> Iterator[tuple[int, TensorStatistics]]:
        while len(waiting) > room:
            index, size, weight, future = waiting.popleft()
            yield index, _result(weight, future)
            report(size)

    for index, weight in enumerate(weights):
        planned = _planned(index, weight, options)
        if not isinstance(planned, Plan):
            yield index, planned
        elif len(planned.chunks) <= 1:
            future = executor.submit(_one, planned, read, options)
            waiting.append((index, weight.length, weight, future))
            yield from ready(options.width)
        else:
            yield index, _spread(planned, read, options, executor, report)
    yield from ready(0)


def _planned(index: int, weight: Weight, options: Options) -> Plan | TensorStatistics:
    try:
        return plan(index, weight, options.chunk_bytes)
    except UsageError as error:
        return blank(weight, problem=str(error))


def _one(planned: Plan, read: Read, options: Options) -> TensorStatistics:
    try:
        return analyse_here(planned, Retrying(read, options.retries), options.target_db)
    except FAILURES as error:
        return blank(planned.weight, problem=_said(error))


def _spread(
    planned: Plan, read: Read, options: Options, executor: Executor, report: Callable[[int], None]
) -> TensorStatistics:
    """The statistics of a tensor of many chunks, a bounded number of them under way."""

    def run_all(tasks: Iterable[Task]) -> Iterator[Found]:
        waiting: deque[tuple[Task, Future[Found]]] = deque()
        reader = Retrying(read, options.retries)
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
        return blank(planned.weight, problem=_said(error))


def _result(weight: Weight, future: Future[TensorStatistics]) -> TensorStatistics:
    try:
        return future.result()
    except BrokenExecutor as error:
        return blank(weight, problem=_said(error))


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
