"""Settings of torch that a measurement changes and puts back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """How exactly float32 products are made inside; as it was, afterwards."""
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
    """`count` threads per operation, None for as many as now; as many as before afterwards."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
