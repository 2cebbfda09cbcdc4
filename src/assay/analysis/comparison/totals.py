"""The figures of the whole model, before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from assay.analysis.comparison.rows import TotalChange
from assay.analysis.comparison.side import Side
from assay.analysis.comparison.verdicts import figure_verdict
from assay.analysis.model_figures import BY_TENSORS, parameter_count, pass_time, pass_total, weight_bytes
from assay.document.provenance import Figure, Unknown
from assay.messages import plural

COUNT, BYTES, SECONDS, JOULES = "count", "bytes", "seconds", "joules"
TIME, ENERGY = "time of a pass", "energy of a pass"


class _Total(NamedTuple):
    name: str
    unit: str
    figure: Callable[[Side], Figure]
    covers_all: bool = True
    """Whether it also covers the ops whose FLOPs are unknown."""


def total_changes(before: Side, after: Side) -> list[TotalChange]:
    """One row per figure."""
    return [_change(total, before, after) for total in _TOTALS]


def _change(total: _Total, before: Side, after: Side) -> TotalChange:
    one, two = total.figure(before), total.figure(after)
    known = one.value is not None and two.value is not None
    return TotalChange(
        name=total.name,
        unit=total.unit,
        before=one,
        after=two,
        difference=two.value - one.value if one.value is not None and two.value is not None else None,
        ratio=two.value / one.value if one.value and two.value is not None else None,
        verdict=figure_verdict(one, two),
        note="" if total.covers_all or not known else _left_out(before, after),
    )


def _left_out(before: Side, after: Side) -> str:
    """The ops that sums of FLOPs leave out; empty if there are none."""
    one, two = (side.cost.forward.unknown_ops for side in (before, after))
    return f"without {plural(one, 'op')} of unknown cost before and {two} after" if one or two else ""


def _trainable(side: Side) -> Figure:
    count = side.counted.trainable
    return Figure(None, Unknown("the parameters are unknown")) if count is None else Figure(count, BY_TENSORS)


def _inference_peak(side: Side) -> Figure:
    peak = side.memory.inference_peak
    if peak.value is None or side.document.storages:
        return peak
    return Figure(None, Unknown("no lifetimes of tensors were recorded"))  # activations are unknown, not zero


def _step_time(side: Side) -> Figure:
    profile = side.document.profile
    if profile is None or profile.step is None:
        return Figure(None, Unknown("no training step was timed"))
    return profile.step.whole


def _energy(side: Side) -> Figure:
    profile = side.document.profile
    if profile is None or profile.energy is None:
        return Figure(None, Unknown("the energy was not measured"))
    return profile.energy.whole


_TOTALS = (
    _Total("parameters", COUNT, lambda side: parameter_count(side.counted)),
    _Total("trainable parameters", COUNT, _trainable),
    _Total("bytes of weights", BYTES, lambda side: weight_bytes(side.memory)),
    _Total("MACs per pass", COUNT, lambda side: pass_total(side.document, side.cost, lambda sums: sums.macs), False),
    _Total(
        "FLOPs per pass", COUNT, lambda side: pass_total(side.document, side.cost, lambda sums: sums.flops), False
    ),
    _Total("bytes moved per pass", BYTES, lambda side: pass_total(side.document, side.cost, lambda sums: sums.bytes)),
    _Total("peak memory of inference", BYTES, _inference_peak),
    _Total("peak memory of training", BYTES, lambda side: side.memory.training_peak),
    _Total(TIME, SECONDS, lambda side: pass_time(side.document)),
    _Total("time of a training step", SECONDS, _step_time),
    _Total(ENERGY, JOULES, _energy),
)
