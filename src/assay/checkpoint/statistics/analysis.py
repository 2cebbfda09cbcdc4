"""One tensor's way through its passes: ask, merge, ask again, until every statistic is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import cast

from msgspec import Struct

from assay.checkpoint.statistics import counted, wide
from assay.checkpoint.statistics.chunks import Chunk, ChunkPlan
from assay.checkpoint.statistics.finalize import TARGET_DB, blank
from assay.checkpoint.statistics.gathering import Read, fetch
from assay.checkpoint.statistics.partials import Partial, Refined, merge, merge_refined
from assay.checkpoint.statistics.passes import ChunkLayout, Request, first_pass, refining_pass
from assay.checkpoint.statistics.search import advance
from assay.document.weights import TensorStatistics


class Task(Struct, frozen=True):
    """A chunk and what to do with it; None is the first pass."""

    chunk: Chunk
    layout: ChunkLayout
    request: Request | None = None


PassResult = Partial | Refined
RunAll = Callable[[Iterable[Task]], Iterable[PassResult]]
"""Runs tasks anywhere and yields what they found, in the order of the tasks."""


def work(task: Task, read: Read) -> PassResult:
    """What one chunk holds; reads it and nothing else."""
    data = fetch(task.chunk, read)
    if task.request is None:
        return first_pass(task.chunk, task.layout, data)
    return refining_pass(task.chunk, task.layout, task.request, data)


def analyse(plan: ChunkPlan, run_all: RunAll, target_db: float = TARGET_DB) -> TensorStatistics:
    """Every statistic of one tensor; the same to the last bit however its chunks were run."""
    if not plan.chunks:
        return blank(plan.weight, note=plan.note)
    layout = ChunkLayout.of(plan)
    partial = merge(cast(Iterable[Partial], run_all(Task(chunk, layout) for chunk in plan.chunks)))
    table = counted.table_of(plan, partial)
    if table is not None:
        return counted.statistics(plan, partial, table, target_db)
    search, refined = wide.questions(plan, partial), None
    while search is not None and not search.done:
        request = wide.next_request(partial, search)
        tasks = (Task(chunk, layout, request) for chunk in plan.chunks)
        refined = merge_refined(cast(Iterable[Refined], run_all(tasks)))
        search = advance(search, refined)
    return wide.statistics(plan, partial, search, refined, target_db)


def analyse_here(plan: ChunkPlan, read: Read, target_db: float = TARGET_DB) -> TensorStatistics:
    """Every statistic of one tensor, chunk by chunk in this thread; a single chunk is read once."""
    reader = cache(read) if len(plan.chunks) == 1 else read
    return analyse(plan, lambda tasks: (work(task, reader) for task in tasks), target_db)
