"""A tensor's values summed up, a chunk at a time on the CPU; the tensor stays as and where it is."""

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
"""Elements that are brought to the CPU at a time."""
BINS = 40
SHOWN = 64
"""How many of the first values are shown."""

Doubles = NDArray[np.float64]


def detail(tensor: torch.Tensor) -> TensorDetail:
    """Figures over finite values, a histogram and the first values; says why where there are none."""
    problem = _problem(tensor)
    if problem:
        return TensorDetail(facts(tensor), problem=problem)
    try:
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            return _detail(tensor, dense(tensor.detach()))
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        return TensorDetail(facts(tensor), problem=first_line(error))


def _problem(tensor: torch.Tensor) -> str:
    if nn.parameter.is_lazy(tensor):
        return "it has not been initialized yet"
    if tensor.is_meta:
        return "on the meta device: there are no numbers"
    if tensor.layout in SPARSE_LAYOUTS:
        return f"a layout of {str(tensor.layout).removeprefix('torch.')}: its values are not looked at"
    if tensor.is_complex():
        return "complex: its values have no order"
    return "" if tensor.numel() else "empty"


def _detail(original: torch.Tensor, tensor: torch.Tensor) -> TensorDetail:
    sums = _Sums()
    for numbers in _chunks(tensor):
        sums.add(numbers)
    drawn, edges = _histogram(tensor, sums.low, sums.high) if sums.count else ((), ())
    return TensorDetail(
        facts(original),
        min=sums.low if sums.count else None,
        max=sums.high if sums.count else None,
        mean=sums.mean if sums.count else None,
        std=math.sqrt(sums.squares / sums.count) if sums.count else None,
        nan=sums.nan,
        inf=sums.inf,
        zeros=sums.zeros,
        counts=drawn,
        edges=edges,
        values=_shown(tensor),
        problem="" if sums.count else "no value is finite",
    )


class _Sums:
    """What has been seen of a tensor's values so far."""

    def __init__(self) -> None:
        self.nan = self.inf = self.zeros = 0
        self.count = 0
        """Finite values."""
        self.low, self.high = math.inf, -math.inf
        self.mean = self.squares = 0.0
        """The mean, and the sum of squared deviations from it."""

    def add(self, numbers: Doubles) -> None:
        """Take in a chunk; means and deviations of two parts are joined as Chan showed."""
        self.nan += int(np.isnan(numbers).sum())
        self.inf += int(np.isinf(numbers).sum())
        finite = numbers[np.isfinite(numbers)]
        if not finite.size:
            return
        self.zeros += int((finite == 0).sum())
        self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
        mean, total = float(finite.mean()), self.count + finite.size
        apart = mean - self.mean
        self.squares += float(np.square(finite - mean).sum()) + apart * apart * self.count * finite.size / total
        self.mean += apart * finite.size / total
        self.count = total


def _histogram(tensor: torch.Tensor, low: float, high: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Equal bins from the least to the largest value; one where they are the same."""
    if low == high:
        return (sum(int((numbers == low).sum()) for numbers in _chunks(tensor)),), (low, high)
    edges = np.linspace(low, high, BINS + 1)
    total = np.zeros(BINS, dtype=np.int64)
    for numbers in _chunks(tensor):
        total += np.histogram(numbers[np.isfinite(numbers)], edges)[0]
    return tuple(total.tolist()), tuple(edges.tolist())


def _chunks(tensor: torch.Tensor) -> Iterator[Doubles]:
    """All elements as doubles on the CPU, some rows at a time, in the tensor's own order."""
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
    # Brought over as it is: on some devices there are no doubles.
    numbers: Doubles = flat.cpu().to(torch.float64).numpy()
    return numbers


def _shown(tensor: torch.Tensor) -> tuple[float, ...]:
    """The first values in their order; only the rows they stand in are looked at."""
    while tensor.dim() > 1 and tensor[0].numel() >= SHOWN:
        tensor = tensor[0]
    if tensor.dim() > 1:
        tensor = tensor[: -(-SHOWN // tensor[0].numel())]
    numbers: Any = _doubles(tensor.reshape(-1)[:SHOWN]).tolist()
    return tuple(numbers)
