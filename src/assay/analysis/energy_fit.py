"""Coefficients of the energy model from measured operations: least squares that allow nothing negative."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.analysis.energy import EnergyWork
from assay.document.machine import EnergyModel

_BYTES, _SECONDS = "bytes", "seconds"
Matrix = NDArray[np.float64]


class EnergySample(Struct, frozen=True):
    """One operation that was measured: what it does, how long it takes, what it took."""

    name: str
    work: EnergyWork
    seconds: float
    joules: float


def calibrate(
    samples: Sequence[EnergySample], device: str, source: str, idle_w: float | None = None
) -> EnergyModel | None:
    """The model that fits best in relative terms; its error is the median of leaving each sample out in turn.

    None where there are not more samples than coefficients.
    """
    names = _features(samples)
    if len(samples) <= len(names):
        return None
    fitted = dict(zip(names, _solved(samples, names), strict=True))
    return EnergyModel(
        device=device,
        j_per_flop={name: fitted[name] for name in names if name not in (_BYTES, _SECONDS) and fitted[name] > 0},
        j_per_byte=fitted[_BYTES],
        static_w=fitted[_SECONDS],
        idle_w=idle_w,
        error=_left_out(samples, names),
        source=source,
        assumptions=(
            f"fitted to {len(samples)} operations on random data; the error is the median of leaving one out",
        ),
    )


def _features(samples: Sequence[EnergySample]) -> list[str]:
    precisions = sorted({name for sample in samples for name, flops in sample.work.flops.items() if flops})
    return [*precisions, _BYTES, _SECONDS]


def _row(sample: EnergySample, names: Sequence[str]) -> list[float]:
    known = {**sample.work.flops, _BYTES: sample.work.bytes, _SECONDS: sample.seconds}
    # Divided by what was measured, so that small operations count as much as large ones.
    return [known.get(name, 0.0) / sample.joules for name in names]


def _solved(samples: Sequence[EnergySample], names: Sequence[str]) -> list[float]:
    rows = np.array([_row(sample, names) for sample in samples])
    scale = np.maximum(np.abs(rows).max(axis=0), 1e-300)
    found = _nonnegative(rows / scale, np.ones(len(samples)))
    return [float(value) for value in found / scale]


def _nonnegative(rows: Matrix, wanted: Matrix) -> Matrix:
    """The best solution without negatives: it is that of some subset of columns, and there are few of them."""
    columns = rows.shape[1]
    best, least = np.zeros(columns), float(wanted @ wanted)
    for count in range(1, columns + 1):
        for chosen in combinations(range(columns), count):
            part, *_ = np.linalg.lstsq(rows[:, chosen], wanted, rcond=None)
            if (part < 0).any():
                continue
            off = rows[:, chosen] @ part - wanted
            if float(off @ off) < least:
                best, least = np.zeros(columns), float(off @ off)
                best[list(chosen)] = part
    return best


def _left_out(samples: Sequence[EnergySample], names: Sequence[str]) -> float:
    errors = []
    for index, sample in enumerate(samples):
        others = [*samples[:index], *samples[index + 1 :]]
        fitted = _solved(others, names)
        told = float(np.dot(_row(sample, names), fitted))
        errors.append(abs(told - 1.0))
    return float(np.median(errors))
