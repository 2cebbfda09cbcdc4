"""Coefficients of the energy model, fitted to measured ops by non-negative least squares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.analysis.energy import EnergyWork
from assay.document.machine import EnergyModel
from assay.messages import plural

_BYTES, _SECONDS = "bytes", "seconds"
Matrix = NDArray[np.float64]


class EnergySample(Struct, frozen=True):
    """One measured op: its work, its time and its energy."""

    name: str
    work: EnergyWork
    seconds: float
    joules: float


def calibrate(
    samples: Sequence[EnergySample], device: str, source: str, idle_w: float | None = None
) -> EnergyModel | None:
    """The model with the smallest relative residuals; its error is the median of leave-one-out predictions.

    None if there are not more samples than coefficients.
    """
    names = _features(samples)
    if len(samples) <= len(names):
        return None
    fitted = dict(zip(names, _fit(samples, names), strict=True))
    return EnergyModel(
        device=device,
        j_per_flop={name: fitted[name] for name in names if name not in (_BYTES, _SECONDS) and fitted[name] > 0},
        j_per_byte=fitted[_BYTES],
        static_w=fitted[_SECONDS],
        idle_w=idle_w,
        error=_leave_one_out_error(samples, names),
        source=source,
        assumptions=(
            f"fitted to {plural(len(samples), 'op')} on random data; the error is the leave-one-out median",
        ),
    )


def _features(samples: Sequence[EnergySample]) -> list[str]:
    precisions = sorted({name for sample in samples for name, flops in sample.work.flops.items() if flops})
    return [*precisions, _BYTES, _SECONDS]


def _row(sample: EnergySample, names: Sequence[str]) -> list[float]:
    amounts = {**sample.work.flops, _BYTES: sample.work.bytes, _SECONDS: sample.seconds}
    # Divided by the measured energy, so that small ops count as much as large ones.
    return [amounts.get(name, 0.0) / sample.joules for name in names]


def _fit(samples: Sequence[EnergySample], names: Sequence[str]) -> list[float]:
    rows = np.array([_row(sample, names) for sample in samples])
    scale = np.maximum(np.abs(rows).max(axis=0), 1e-300)
    solution = _nonnegative(rows / scale, np.ones(len(samples)))
    return [float(value) for value in solution / scale]


def _nonnegative(rows: Matrix, target: Matrix) -> Matrix:
    """The non-negative least-squares solution: the best over all subsets of columns, of which there are few."""
    columns = rows.shape[1]
    best, least = np.zeros(columns), float(target @ target)
    for count in range(1, columns + 1):
        for chosen in combinations(range(columns), count):
            part, *_ = np.linalg.lstsq(rows[:, chosen], target, rcond=None)
            if (part < 0).any():
                continue
            residual = rows[:, chosen] @ part - target
            if float(residual @ residual) < least:
                best, least = np.zeros(columns), float(residual @ residual)
                best[list(chosen)] = part
    return best


def _leave_one_out_error(samples: Sequence[EnergySample], names: Sequence[str]) -> float:
    errors = []
    for index, sample in enumerate(samples):
        others = [*samples[:index], *samples[index + 1 :]]
        fitted = _fit(others, names)
        prediction = float(np.dot(_row(sample, names), fitted))
        errors.append(abs(prediction - 1.0))
    return float(np.median(errors))
