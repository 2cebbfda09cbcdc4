"""Value statistics of a tensor on an accelerator: a short vector per tensor stays there until all are fetched."""

from __future__ import annotations

import math
import threading
from typing import Any

import torch

from assay.forward_stats.values import ValueStats, deviation, flattened, reducible
from assay.messages import first_line

PIECE = 1 << 24
"""Elements converted at a time."""


class Pending:
    """Statistics that are still on a device."""

    __slots__ = ("_count", "_kind", "_queue", "_values", "vector")

    def __init__(self, vector: torch.Tensor, kind: str, count: int, queue: Queue) -> None:
        self.vector: torch.Tensor | None = vector
        self._count = count
        self._kind = kind
        self._queue: Queue | None = queue
        self._values = ValueStats(why="not fetched")

    def get(self) -> ValueStats:
        """The statistics; the first call waits for the device and fetches all pending ones."""
        if self._queue is not None:
            self._queue.resolve()
        return self._values

    def set_result(self, numbers: torch.Tensor | str) -> None:
        """Set the fetched numbers, or the reason why there are none."""
        if isinstance(numbers, str):
            self._values = ValueStats(why=numbers)
        else:
            self._values = from_vector(numbers, self._kind, self._count)
        self.vector = self._queue = None


class Queue:
    """All statistics that are still on a device, fetched in one transfer per device."""

    def __init__(self) -> None:
        self._pending: list[Pending] = []
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, tensor: torch.Tensor, kind: str, count: int) -> Pending:
        """Compute the statistics of `tensor` as it is now, to be fetched later together with the rest."""
        pending = Pending(vector(tensor, kind), kind, count, self)
        self._pending.append(pending)
        return pending

    def resolve(self) -> None:
        """Fetch all pending statistics; those that cannot be fetched get the reason."""
        with self._lock:
            waiting, self._pending = self._pending, []
            groups: dict[Any, list[Pending]] = {}
            for each in waiting:
                if each.vector is not None:
                    groups.setdefault((each.vector.device, each.vector.dtype), []).append(each)
            for group in groups.values():
                _fetch(group)


def _fetch(group: list[Pending]) -> None:
    try:
        rows: Any = torch.stack([each.vector for each in group if each.vector is not None]).cpu()
    except RuntimeError as error:
        rows = [f"cannot be copied from the device: {first_line(error)}"] * len(group)
    for each, row in zip(group, rows, strict=True):
        each.set_result(row)


def kind_of(tensor: torch.Tensor) -> str:
    """`float`, `int` or `complex`: how to interpret the numbers in a vector."""
    return "complex" if tensor.is_complex() else "float" if tensor.is_floating_point() else "int"


def vector(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    """Min, max, mean, variance, whether there are infinities, and the imaginary part of the mean, as one tensor.

    Min and max of integers are stored as their bits, so that they are exact beyond 2**53. For complex tensors, the
    first number is whether there is a NaN.
    """
    if kind == "complex":
        return _complex_vector(tensor)
    flat = flattened(reducible(tensor))
    low, high = torch.aminmax(flat)
    mean, variance = _moments(flat)
    zero = torch.zeros_like(mean)
    if kind == "int":
        low, high = torch.stack([low, high]).to(torch.int64).view(torch.float64).unbind()
        inf = zero
    else:
        inf = torch.isinf(flat).any()
    return torch.stack([each.to(mean.dtype) for each in (low, high, mean, variance, inf, zero)])


def _complex_vector(tensor: torch.Tensor) -> torch.Tensor:
    real, imaginary = (vector(part, "float") for part in torch.view_as_real(tensor.resolve_conj()).unbind(-1))
    nan = (real[0].isnan() | imaginary[0].isnan()).to(real.dtype)
    inf = torch.maximum(real[4], imaginary[4])
    return torch.stack([nan, nan, real[2], real[3] + imaginary[3], inf, imaginary[2]])


def _moments(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and population variance, computed in pieces to avoid a large copy."""
    wide = torch.float32 if flat.device.type == "mps" else torch.float64
    narrow = torch.float32 if flat.is_floating_point() and flat.dtype.itemsize < 8 else wide
    pieces = [torch.var_mean(part.to(narrow), correction=0) for part in flat.split(PIECE)]
    means = torch.stack([mean for _, mean in pieces]).to(wide)
    variances = torch.stack([variance for variance, _ in pieces]).to(wide)
    if len(pieces) == 1:
        return means[0], variances[0]
    shares = torch.full_like(means, PIECE / flat.numel())
    shares[-1] = 1.0 - PIECE / flat.numel() * (len(pieces) - 1)
    mean = (means * shares).sum()
    return mean, ((variances + (means - mean) ** 2) * shares).sum()


def from_vector(numbers: torch.Tensor, kind: str, count: int) -> ValueStats:
    """The statistics in a vector that has been fetched."""
    low, high, mean, variance, infinite, imaginary = numbers.tolist()
    inf = bool(infinite)
    if kind == "int":
        low, high = numbers[:2].view(torch.int64).tolist()
        return ValueStats(low, high, mean, deviation(variance, count), False, False)
    nan = bool(low) if kind == "complex" else math.isnan(low)
    std = math.nan if (nan or inf) and count > 1 else deviation(variance, count)
    if kind == "complex":
        return ValueStats(None, None, complex(mean, imaginary), std, nan, inf)
    return ValueStats(low, high, mean, std, nan, inf)
