"""Analyses one tensor: run passes over its chunks and merge their results until every statistic is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics import counted, overlapping, wide
from assay.checkpoint.statistics.checksums import check
from assay.checkpoint.statistics.chunks import Chunk, ChunkPlan
from assay.checkpoint.statistics.extremes import at_any_scale, scaled
from assay.checkpoint.statistics.finalize import TARGET_DB, blank
from assay.checkpoint.statistics.gathering import Read, fetch
from assay.checkpoint.statistics.partials import Partial, Refined, merge, merge_refined
from assay.checkpoint.statistics.passes import ChunkLayout, Request, first_pass, refining_pass
from assay.checkpoint.statistics.search import advance
from assay.document.weights import TensorStatistics


class Task(Struct, frozen=True):
    """A pass over one chunk: the first pass if `request` is None, else a refining pass."""

    chunk: Chunk
    layout: ChunkLayout
    request: Request | None = None


PassResult = Partial | Refined
RunAll = Callable[[Iterable[Task]], Iterable[PassResult]]
"""Runs tasks, possibly elsewhere, and yields their results in the order of the tasks."""


def work(task: Task, read: Read) -> PassResult:
    """The result of one task; reads only its chunk."""
    return _result(task, fetch(task.chunk, read))


def _result(task: Task, data: NDArray[np.uint8]) -> PassResult:
    if task.layout.exponent:
        data = scaled(data, task.chunk.dtype, task.layout.exponent)
    if task.request is None:
        return first_pass(task.chunk, task.layout, data)
    return refining_pass(task.chunk, task.layout, task.request, data)


def analyse(plan: ChunkPlan, run_all: RunAll, target_db: float = TARGET_DB) -> TensorStatistics:
    """All statistics of one tensor, bit for bit the same however its tasks are scheduled."""
    if not plan.chunks:
        return blank(plan.weight, note=plan.note)
    return at_any_scale(plan.dtype, lambda exponent: _analyse(plan, exponent, run_all, target_db))


def _analyse(plan: ChunkPlan, exponent: int, run_all: RunAll, target_db: float) -> TensorStatistics:
    layout = ChunkLayout.of(plan, exponent)
    partials = run_all(Task(chunk, layout) for chunk in plan.chunks)
    partial = merge(cast(Iterable[Partial], partials), layout.distinct)
    if layout.checked and plan.weight.crc is not None:
        check(plan.weight.file, plan.weight.crc, partial.pieces)
    table = counted.table_of(plan, partial)
    if table is not None:
        return counted.statistics(plan, partial, table, target_db)
    search, refined = wide.begin_search(plan, partial), None
    while search is not None and not search.done:
        request = wide.next_request(partial, search)
        tasks = (Task(chunk, layout, request) for chunk in plan.chunks)
        refined = merge_refined(cast(Iterable[Refined], run_all(tasks)))
        search = advance(search, refined)
    return wide.statistics(plan, partial, search, refined, target_db)


def analyse_here(plan: ChunkPlan, read: Read, target_db: float = TARGET_DB) -> TensorStatistics:
    """All statistics of one tensor, computed in this thread; if there is only one chunk, it is read once."""
    if len(plan.chunks) != 1:
        return analyse(plan, lambda tasks: (work(task, read) for task in tasks), target_db)
    data = fetch(plan.chunks[0], read)
    if plan.overlapping:
        return at_any_scale(plan.dtype, lambda exponent: overlapping.statistics(plan, data, exponent, target_db))
    return analyse(plan, lambda tasks: (_result(task, data) for task in tasks), target_db)
