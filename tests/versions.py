"""Skips of tests about features that an installed package does not have yet, for `make test-oldest`."""

from __future__ import annotations

from importlib.metadata import version

import pytest


def require(package: str, minimum: str, feature: str) -> None:
    """Skip the running test unless `package` is at least `minimum` (such as "2.5"), which introduced `feature`."""
    if _numbers(version(package)) < _numbers(minimum):
        pytest.skip(f"{feature} needs {package} {minimum}")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])
