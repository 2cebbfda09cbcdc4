"""The difference between two tensors, added up in float64 and in chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

_CHUNK = 1 << 22
"""Elements that are converted to float64 at a time."""


@dataclass(frozen=True)
class Difference:
    """How a tensor differs from another of the same shape, over the elements that are finite in both."""

    equal: bool
    """Whether both have the same dtype and values; NaN equals NaN."""
    max_abs: float
    max_rel: float
    """The largest difference, relative to the largest value of the original."""
    cosine: float | None
    """None if one of the two is all zeros."""
    sqnr_db: float | None
    """None if no element differs; 0 if the original is all zeros and the other is not."""
    top1: float | None
    """The share of rows with the largest element at the same place; None if rows have fewer than two elements."""
    appeared: int
    """Elements that are NaN or infinite, and were not or were another of these."""
    vanished: int
    """Elements that were NaN or infinite and are not."""


def difference(old: torch.Tensor, new: torch.Tensor) -> Difference:
    """How `new` differs from `old`, both on the CPU and of the same shape."""
    signal = noise = other = dot = 0.0
    max_abs = largest = 0.0
    appeared = vanished = 0
    equal = old.dtype == new.dtype
    for a, b in _chunks(old, new):
        same = (a == b) | (a.isnan() & b.isnan())
        equal = equal and bool(same.all())
        appeared += int((~same & ~b.isfinite()).sum())
        vanished += int((~a.isfinite() & b.isfinite()).sum())
        finite = a.isfinite() & b.isfinite()
        a, b = a[finite], b[finite]
        if not len(a):
            continue
        apart = a - b
        signal, other = signal + float(a @ a), other + float(b @ b)
        noise, dot = noise + float(apart @ apart), dot + float(a @ b)
        max_abs, largest = max(max_abs, float(apart.abs().max())), max(largest, float(a.abs().max()))
    return Difference(
        equal=equal,
        max_abs=max_abs,
        max_rel=max_abs / largest if largest else float(max_abs > 0),
        cosine=min(dot / math.sqrt(signal) / math.sqrt(other), 1.0) if signal and other else None,
        sqnr_db=(10 * math.log10(signal / noise) if signal else 0.0) if noise else None,
        top1=_top1(old, new),
        appeared=appeared,
        vanished=vanished,
    )


def _chunks(old: torch.Tensor, new: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Both tensors in flat chunks of float64."""
    if old.is_complex() or new.is_complex():
        old, new = (torch.view_as_real(each.to(torch.complex128).resolve_conj()) for each in (old, new))
    flat = old.reshape(-1), new.reshape(-1)
    for start in range(0, len(flat[0]), _CHUNK):
        yield flat[0][start : start + _CHUNK].double(), flat[1][start : start + _CHUNK].double()


def _top1(old: torch.Tensor, new: torch.Tensor) -> float | None:
    """The share of rows in which the largest element of `new` is a largest one of `old` too."""
    if old.dim() < 1 or old.shape[-1] < 2 or not old.numel() or old.is_complex() or new.is_complex():
        return None
    # Types without a maximum, such as those of 8 bits, are converted exactly.
    before, after = (each.float() if each.element_size() < 4 else each for each in (old, new))
    chosen = after.argmax(dim=-1, keepdim=True)
    agree = (before.gather(-1, chosen) == before.amax(dim=-1, keepdim=True)) | (
        before.argmax(dim=-1, keepdim=True) == chosen
    )
    return float(agree.double().mean())
