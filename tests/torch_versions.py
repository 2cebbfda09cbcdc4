"""Skips of tests about features that the installed torch does not have yet; Assay supports torch 2.4 and newer."""

from __future__ import annotations

import pytest


def require_torch(version: str, feature: str) -> None:
    """Skip the running test unless torch is at least `version`, which introduced `feature`."""
    import torch

    if _numbers(torch.__version__) < _numbers(version):
        pytest.skip(f"{feature} needs torch {version}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
