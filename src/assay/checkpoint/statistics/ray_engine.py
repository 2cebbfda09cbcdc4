"""The same work as Ray tasks, about a shard each, on a cluster that is there or a local one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.checkpoint.statistics.chunks import Weight
from assay.checkpoint.statistics.engine import EngineOptions, Postprocess, run_here
from assay.checkpoint.statistics.finalize import blank
from assay.checkpoint.statistics.gathering import Read
from assay.cluster import joined
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
    after: Postprocess | None = None,
) -> Iterator[tuple[int, TensorStatistics]]:
    """The place and statistics of every tensor as its task finishes; those of a lost task carry the problem."""
    with joined(address, local_workers) as ray:
        task = ray.remote(max_retries=TASK_RETRIES)(run_here)
        under_way = {
            task.remote([weights[index] for index in batch], read, options or EngineOptions(), after): batch
            for batch in batches(weights)
        }
        while under_way:
            finished, _ = ray.wait(list(under_way), num_returns=1)
            batch = under_way.pop(finished[0])
            try:
                found = ray.get(finished[0])
            except ray.exceptions.RayError as error:
                problem = f"its task was lost: {first_line(error)}"
                found = [(place, blank(weights[index], problem=problem)) for place, index in enumerate(batch)]
            for place, statistics in found:
                yield batch[place], statistics


def batches(weights: Sequence[Weight], limit: int = TASK_BYTES) -> list[list[int]]:
    """The places of tensors, by file and in order, in batches of about `limit` bytes."""
    found: list[list[int]] = []
    size = 0
    for index, weight in enumerate(weights):
        fits = found and weights[found[-1][-1]].file == weight.file and size + weight.length <= limit
        if fits:
            found[-1].append(index)
            size += weight.length
        else:
            found.append([index])
            size = weight.length
    return found
