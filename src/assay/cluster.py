"""Connecting to a Ray cluster: an existing one, or a local one that is started and shut down again."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from assay.errors import UsageError
from assay.messages import error_line, first_line

_USAGE = "RAY_USAGE_STATS_ENABLED"


@contextmanager
def connected_ray(address: str | None = None, workers: int | None = None) -> Iterator[Any]:
    """The `ray` module, connected to the cluster at `address`, or to a new local one with `workers` CPUs.

    If Ray is already initialised, that connection is used and stays open; otherwise it is shut down at the end.
    """
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
    """The `ray` module; raises UsageError with the reason if it cannot be imported."""
    try:
        return importlib.import_module("ray")
    except Exception as error:
        raise UsageError(f"ray could not be imported ({error_line(error)}); install torch-assay[ray]") from error


def _start(ray: Any, address: str | None, workers: int | None) -> None:
    try:
        with _silent():
            if address:
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            else:
                ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        where = f"connect to {address}" if address else "start on this machine"
        raise UsageError(f"Ray could not {where}: {first_line(error)}") from error


@contextmanager
def _silent() -> Iterator[None]:
    """A block in which Ray starts without warnings, and without collecting or announcing usage statistics."""
    unset = _USAGE not in os.environ
    os.environ.setdefault(_USAGE, "0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if unset:
            del os.environ[_USAGE]
