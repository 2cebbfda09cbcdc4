"""Computes the statistics in Ray tasks of approximately one shard each, on an existing cluster or a local one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.checkpoint.statistics.chunks import Weight
from assay.checkpoint.statistics.engine import EngineOptions, Postprocess, run_here
from assay.checkpoint.statistics.finalize import blank
from assay.checkpoint.statistics.gathering import Read
from assay.cluster import connected_ray
from assay.document.weights import TensorStatistics
from assay.messages import first_line

TASK_BYTES = 1 << 30
TASK_RETRIES = 2


def run_on_ray(
    weights: Sequence[Weight],
    read: Read,
    options: EngineOptions | None = None,
    address: str | None = None,
    local_workers: int | None = None,
    postprocess: Postprocess | None = None,
) -> Iterator[tuple[int, TensorStatistics]]:
    """Yield the index and statistics of every tensor as its task finishes; a lost task sets their `problem`."""
    with connected_ray(address, local_workers) as ray:
        task = ray.remote(max_retries=TASK_RETRIES)(run_here)
        running = {
            task.remote([weights[index] for index in batch], read, options or EngineOptions(), postprocess): batch
            for batch in batches(weights)
        }
        while running:
            finished, _ = ray.wait(list(running), num_returns=1)
            batch = running.pop(finished[0])
            try:
                rows = ray.get(finished[0])
            except ray.exceptions.RayError as error:
                problem = f"its Ray task was lost: {first_line(error)}"
                rows = [(position, blank(weights[index], problem=problem)) for position, index in enumerate(batch)]
            for position, statistics in rows:
                yield batch[position], statistics


def batches(weights: Sequence[Weight], limit: int = TASK_BYTES) -> list[list[int]]:
    """The indices of tensors in batches of one file and approximately `limit` bytes each, in order."""
    groups: list[list[int]] = []
    size = 0
    for index, weight in enumerate(weights):
        fits = groups and weights[groups[-1][-1]].file == weight.file and size + weight.length <= limit
        if fits:
            groups[-1].append(index)
            size += weight.length
        else:
            groups.append([index])
            size = weight.length
    return groups
