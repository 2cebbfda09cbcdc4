"""A Ray cluster for the time of some work: one that is there, or one started here and ended afterwards."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from assay.errors import UsageError
from assay.messages import error_line, first_line


@contextmanager
def joined(address: str | None = None, workers: int | None = None) -> Iterator[Any]:
    """The ray module, connected; a cluster that was started here has so many processors and is ended."""
    ray = import_ray()
    started = not ray.is_initialized()
    if started:
        _start(ray, address, workers)
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()


def import_ray() -> Any:
    """The ray module; an error that says why where it does not import."""
    try:
        return importlib.import_module("ray")
    except Exception as error:
        raise UsageError(f"ray could not be imported ({error_line(error)}); install torch-assay[ray]") from error


def _start(ray: Any, address: str | None, workers: int | None) -> None:
    try:
        if address:
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"ray did not start at {address or 'this machine'}: {first_line(error)}") from error
