"""The same work as Ray tasks, about a shard each, on a cluster that is there or a local one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from assay.document.weights import TensorStatistics
from assay.errors import UsageError
from assay.weights.chunks import Weight
from assay.weights.engine import After, Options, run_here
from assay.weights.finalize import blank
from assay.weights.gathering import Read

TASK_BYTES = 1 << 30
TASK_RETRIES = 2


def run_on_ray(
    weights: Sequence[Weight],
    read: Read,
    options: Options | None = None,
    address: str | None = None,
    local_workers: int | None = None,
    after: After | None = None,
) -> Iterator[tuple[int, TensorStatistics]]:
    """The place and statistics of every tensor as its task finishes; those of a lost task carry the problem."""
    ray = import_ray()
    started = not ray.is_initialized()
    if started:
        _start(ray, address, local_workers)
    try:
        yield from _collected(ray, weights, read, options or Options(), after)
    finally:
        if started:
            ray.shutdown()


def import_ray() -> Any:
    """The ray module; an error that says why where it does not import."""
    try:
        return importlib.import_module("ray")
    except Exception as error:
        raise UsageError(
            f"ray could not be imported ({type(error).__name__}: {error}); install torch-assay[ray]"
        ) from error


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


def _start(ray: Any, address: str | None, local_workers: int | None) -> None:
    try:
        if address:
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(num_cpus=local_workers, include_dashboard=False, log_to_driver=False)
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"ray did not start at {address or 'this machine'}: {error}") from error


def _collected(
    ray: Any, weights: Sequence[Weight], read: Read, options: Options, after: After | None
) -> Iterator[tuple[int, TensorStatistics]]:
    task = ray.remote(max_retries=TASK_RETRIES)(run_here)
    under_way = {
        task.remote([weights[index] for index in batch], read, options, after): batch for batch in batches(weights)
    }
    while under_way:
        finished, _ = ray.wait(list(under_way), num_returns=1)
        batch = under_way.pop(finished[0])
        try:
            found = ray.get(finished[0])
        except ray.exceptions.RayError as error:
            lines = str(error).splitlines()
            problem = f"its task was lost: {lines[0] if lines else type(error).__name__}"
            found = [(place, blank(weights[index], problem=problem)) for place, index in enumerate(batch)]
        for place, statistics in found:
            yield batch[place], statistics
