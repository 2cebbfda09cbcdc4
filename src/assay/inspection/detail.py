"""Statistics of a tensor's values, computed on the CPU in chunks; the tensor itself is not changed or moved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from assay.document.inspection import TensorDetail
from assay.forward_stats.values import dense
from assay.inspection.attributes import facts
from assay.messages import first_line
from assay.recorder.inventory import SPARSE_LAYOUTS

CHUNK = 1 << 22
"""Elements copied to the CPU at a time."""
BINS = 40
SHOWN = 64
"""Number of first values to keep."""

Doubles = NDArray[np.float64]


def detail(tensor: torch.Tensor) -> TensorDetail:
    """Statistics over finite values, a histogram and the first values; the reason if there are none."""
    problem = _problem(tensor)
    if problem:
        return TensorDetail(facts(tensor), problem=problem)
    try:
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            return _detail(tensor, dense(tensor.detach()))
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        return TensorDetail(facts(tensor), problem=first_line(error))


def _problem(tensor: torch.Tensor) -> str:
    """Why the tensor's values cannot be read; empty if they can."""
    if nn.parameter.is_lazy(tensor):
        return "not initialized yet"
    if tensor.is_meta:
        return "on the meta device: no values"
    if tensor.layout in SPARSE_LAYOUTS:
        return f"layout {str(tensor.layout).removeprefix('torch.')}: values are not read"
    if tensor.is_complex():
        return "complex: values cannot be ordered"
    return "" if tensor.numel() else "empty"


def _detail(original: torch.Tensor, tensor: torch.Tensor) -> TensorDetail:
    sums = _Sums()
    for numbers in _chunks(tensor):
        sums.add(numbers)
    counts, edges = _histogram(tensor, sums.low, sums.high) if sums.count else ((), ())
    return TensorDetail(
        facts(original),
        min=sums.low if sums.count else None,
        max=sums.high if sums.count else None,
        mean=sums.mean if sums.count else None,
        std=math.sqrt(sums.squares / sums.count) if sums.count else None,
        nan=sums.nan,
        inf=sums.inf,
        zeros=sums.zeros,
        counts=counts,
        edges=edges,
        values=_first_values(tensor),
        problem="" if sums.count else "no finite values",
    )


class _Sums:
    """Running statistics over the chunks of a tensor."""

    def __init__(self) -> None:
        self.nan = self.inf = self.zeros = 0
        self.count = 0
        """Number of finite values."""
        self.low, self.high = math.inf, -math.inf
        self.mean = self.squares = 0.0
        """The mean, and the sum of squared deviations from it."""

    def add(self, numbers: Doubles) -> None:
        """Add a chunk; means and squared deviations are combined with Chan's method."""
        self.nan += int(np.isnan(numbers).sum())
        self.inf += int(np.isinf(numbers).sum())
        finite = numbers[np.isfinite(numbers)]
        if not finite.size:
            return
        self.zeros += int((finite == 0).sum())
        self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
        mean, total = float(finite.mean()), self.count + finite.size
        delta = mean - self.mean
        self.squares += float(np.square(finite - mean).sum()) + delta * delta * self.count * finite.size / total
        self.mean += delta * finite.size / total
        self.count = total


def _histogram(tensor: torch.Tensor, low: float, high: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Counts and edges of equal bins from `low` to `high`; a single bin if they are equal."""
    if low == high:
        return (sum(int((numbers == low).sum()) for numbers in _chunks(tensor)),), (low, high)
    edges = np.linspace(low, high, BINS + 1)
    total = np.zeros(BINS, dtype=np.int64)
    for numbers in _chunks(tensor):
        total += np.histogram(numbers[np.isfinite(numbers)], edges)[0]
    return tuple(total.tolist()), tuple(edges.tolist())


def _chunks(tensor: torch.Tensor) -> Iterator[Doubles]:
    """All elements as doubles on the CPU, a few rows at a time, in order."""
    if tensor.dim() == 0 or tensor.numel() <= CHUNK:
        yield _doubles(tensor.reshape(-1))
        return
    if tensor.numel() // tensor.shape[0] > CHUNK:
        for row in tensor.unbind():
            yield from _chunks(row)
        return
    for rows in tensor.split(max(1, CHUNK // (tensor.numel() // tensor.shape[0]))):
        yield _doubles(rows.reshape(-1))


def _doubles(flat: torch.Tensor) -> Doubles:
    # Converted after the copy: some devices do not support doubles.
    numbers: Doubles = flat.cpu().to(torch.float64).numpy()
    return numbers


def _first_values(tensor: torch.Tensor) -> tuple[float, ...]:
    """The first values in order; only the rows that contain them are read."""
    while tensor.dim() > 1 and tensor[0].numel() >= SHOWN:
        tensor = tensor[0]
    if tensor.dim() > 1:
        tensor = tensor[: -(-SHOWN // tensor[0].numel())]
    numbers: Any = _doubles(tensor.reshape(-1)[:SHOWN]).tolist()
    return tuple(numbers)
