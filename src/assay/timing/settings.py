"""Torch settings that a measurement changes and restores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """Set the precision of float32 matrix products inside the context, and restore it afterwards."""
    before = torch.get_float32_matmul_precision()
    if before == name:
        yield
        return
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Set the number of threads per op to `count` (None: unchanged), and restore it afterwards."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
