"""Coefficients of the energy model, fitted to measured ops and models, and the interval that their errors give.

Every sample is predicted with coefficients fitted to all others. The errors of these predictions are what the model
states: their median, and the interval that contains 90 % of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from assay.analysis.energy import EnergyWork, full_s
from assay.document.machine import EnergyModel
from assay.messages import plural

OUTSIDE = 0.05
"""The share of errors that the 90 % interval leaves out on either side."""
AT_LIMIT = 0.97
"""A device that draws more than this share of its power limit is slowed down by it."""
WAITING = 0.1
"""The share of the time that a sample must wait for work to count as one that waits."""
_BYTES, _BUSY, _SECONDS = "bytes", "busy", "seconds"
_TIMES = (_BYTES, _BUSY, _SECONDS)
_ROUNDS = 20
_RAMPS_S = tuple(0.5e-6 * step for step in range(11))
"""Durations that are tried for the start and the end of a kernel."""
Matrix = NDArray[np.float64]


class EnergySample(Struct, frozen=True):
    """One measured op or model: its work, its time and its energy."""

    name: str
    work: EnergyWork
    seconds: float
    joules: float
    busy_s: float | None = None
    """Seconds during which the device worked; None if it always did."""
    kernels: float | None = None
    """Number of kernels; None if unknown."""


def calibrate(
    samples: Sequence[EnergySample],
    device: str,
    source: str,
    idle_w: float | None = None,
    limit_w: float | None = None,
) -> EnergyModel | None:
    """The model with the smallest relative residuals, with the errors of its leave-one-out predictions.

    None if there are not more samples than coefficients. Power is at least `idle_w` and at most `limit_w`.
    """
    terms = _Terms(_features(samples), idle_w or 0.0, limit_w)
    if len(samples) <= len(terms.names):
        return None
    errors = {}
    for index, sample in enumerate(samples):
        others = [*samples[:index], *samples[index + 1 :]]
        errors[sample.name] = _fitted(terms, others).error(sample)
    fit = _fitted(terms, samples)
    fitted = dict(zip(fit.names, fit.coefficients, strict=True))
    awake_w = fit.idle_w + fitted.get(_SECONDS, 0.0)
    return EnergyModel(
        device=device,
        j_per_flop={name: fitted[name] for name in fit.names if name not in _TIMES},
        j_per_byte=fitted[_BYTES],
        static_w=awake_w + fitted[_BUSY],
        idle_w=awake_w if _SECONDS in fitted else idle_w,
        ramp_s=fit.ramp_s,
        limit_w=limit_w,
        error=float(np.median(np.abs(list(errors.values())))),
        interval=interval(list(errors.values())),
        errors=errors,
        source=source,
        assumptions=(
            f"90 % interval from the leave-one-out errors of {plural(len(samples), 'measured op')} on random data",
        ),
    )


def interval(errors: Sequence[float]) -> tuple[float, float]:
    """The factors of an estimate between which the energy lies in 90 % of cases, from relative errors of estimates.

    They are conformal quantiles of the ratio of measured to estimated energy: of one more sample than there are, at
    most 5 % lie outside on either side. With fewer than 39 samples, they are the smallest and the largest ratio.
    """
    ratios = sorted(1.0 / (1.0 + error) for error in errors)
    outside = max(1, math.floor(OUTSIDE * (len(ratios) + 1)))
    return ratios[outside - 1], ratios[-outside]


class _Terms(Struct, frozen=True):
    """The terms of a model, with their coefficients once they are fitted."""

    names: tuple[str, ...]
    idle_w: float
    limit_w: float | None
    ramp_s: float = 0.0
    coefficients: tuple[float, ...] = ()

    def solved(self, samples: Sequence[EnergySample]) -> _Terms:
        """Non-negative coefficients with the smallest sum of squared relative errors.

        The power limit, not the work, sets the energy of a sample that reaches it: the terms may exceed that energy
        without being an error.
        """
        rows = np.array([self._row(sample) for sample in samples])
        target = np.array([1.0 - self.idle_w * sample.seconds / sample.joules for sample in samples])
        scale = np.maximum(np.abs(rows).max(axis=0), 1e-300)
        limited = np.array([self._is_limited(sample) for sample in samples])
        counted = np.ones(len(samples), bool)
        for _ in range(_ROUNDS):
            solution = nonnegative(rows[counted] / scale, target[counted]) / scale
            now = ~(limited & (rows @ solution > target))
            if (now == counted).all():
                break
            counted = now
        return replace(self, coefficients=tuple(map(float, solution)))

    def error(self, sample: EnergySample) -> float:
        """The relative error of the estimate for `sample`."""
        share = float(np.dot(self._row(sample), self.coefficients)) + self.idle_w * sample.seconds / sample.joules
        limit = math.inf if self.limit_w is None else self.limit_w * sample.seconds / sample.joules
        return min(share, limit) - 1.0

    def _row(self, sample: EnergySample) -> list[float]:
        amounts = {
            **sample.work.flops,
            _BYTES: sample.work.bytes,
            _BUSY: full_s(sample.seconds, sample.busy_s, sample.kernels, self.ramp_s),
            _SECONDS: sample.seconds,
        }
        # Divided by the measured energy, so that small ops count as much as large ones.
        return [amounts.get(name, 0.0) / sample.joules for name in self.names]

    def _is_limited(self, sample: EnergySample) -> bool:
        return self.limit_w is not None and sample.joules > AT_LIMIT * self.limit_w * sample.seconds


def _fitted(terms: _Terms, samples: Sequence[EnergySample]) -> _Terms:
    """The terms fitted to `samples`, with the ramp of kernels that leaves the smallest errors."""
    ramps = _RAMPS_S if any(sample.kernels for sample in samples) else (0.0,)
    fits = [replace(terms, ramp_s=ramp_s).solved(samples) for ramp_s in ramps]
    return min(fits, key=lambda fit: sum(fit.error(sample) ** 2 for sample in samples))


def _features(samples: Sequence[EnergySample]) -> tuple[str, ...]:
    precisions = sorted({name for sample in samples for name, flops in sample.work.flops.items() if flops})
    waits = any(sample.busy_s is not None and sample.busy_s < (1 - WAITING) * sample.seconds for sample in samples)
    return (*precisions, _BYTES, _BUSY, *([_SECONDS] if waits else []))


def nonnegative(rows: Matrix, target: Matrix) -> Matrix:
    """The non-negative least-squares solution, by the active-set method of Lawson and Hanson."""
    columns = rows.shape[1]
    solution, free = np.zeros(columns), np.zeros(columns, bool)
    for _ in range(10 * columns):
        slope = np.where(free, -np.inf, rows.T @ (target - rows @ solution))
        if slope.max(initial=-np.inf) <= 1e-12 * max(1.0, float(np.abs(rows.T @ target).max(initial=0.0))):
            break
        free[int(slope.argmax())] = True
        while True:
            part = np.zeros(columns)
            part[free] = np.linalg.lstsq(rows[:, free], target, rcond=None)[0]
            if (part[free] > 0).all():
                break
            # Go as far towards it as no coefficient becomes negative, and fix those that reach zero.
            falling = free & (part <= 0)
            step = float((solution[falling] / np.maximum(solution[falling] - part[falling], 1e-300)).min())
            solution = solution + step * (part - solution)
            free &= solution > 1e-15
            solution[~free] = 0.0
        solution = part
    return solution
