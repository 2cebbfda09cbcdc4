"""Sweeps over input sizes and thread counts: time, throughput, memory, and the knee of the throughput."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.analysis.memory import largest_batch
from assay.api.options import OnStep
from assay.api.profile import figures, resident
from assay.api.profile.predict import Predictor
from assay.api.profile.profiled import ProfiledModel
from assay.document.machine import NOT_MEASURED
from assay.document.profile import LARGEST_SEARCHED, Sweep, SweepPoint, ThreadPoint
from assay.document.provenance import Counted, Figure, Unknown
from assay.errors import AssayError, UsageError
from assay.messages import first_line, plural
from assay.sources.resizing import axes, resized

if TYPE_CHECKING:
    from assay.timing.measuring import Budget

KNEE = 0.9
"""The knee is the smallest size that reaches this share of the best throughput."""

_PREDICTED = Counted("storages of a capture on shapes")


def parse_sweep(text: str) -> tuple[str, list[int]]:
    """The axis and its sizes from text: `parse("batch=1,2,4") == ("batch", [1, 2, 4])`."""
    name, _, sizes = text.partition("=")
    values = [part.strip() for part in sizes.split(",")]
    if not name or not all(value.isdecimal() and int(value) for value in values):
        raise UsageError(f"cannot parse the sweep {text!r}: expected the form batch=1,2,4")
    return name.strip(), list(dict.fromkeys(int(value) for value in values))


def sweep(
    profiled: ProfiledModel, axis: str, sizes: Sequence[int], budget: Budget, limit: Figure, on_step: OnStep
) -> Sweep:
    """Time and memory of passes at each size, smallest first; sizes that exceed `limit` bytes are not run."""
    varied = axes(profiled.inputs, [axis])
    predictor = Predictor(profiled, varied)
    points = []
    for size in sorted(sizes):
        on_step(f"{axis} {size}")
        predicted = _predicted(predictor, axis, size)
        points.append(_point(profiled.with_inputs(resized(profiled.inputs, base=varied, **{axis: size})),
                             axis, size, predicted, budget, limit))  # fmt: skip
    return Sweep(axis, points, _knee(points, axis), *_largest(predictor, axis, limit))


def threads(profiled: ProfiledModel, counts: Sequence[int], budget: Budget, on_step: OnStep) -> list[ThreadPoint]:
    """Time of the pass with each thread count; torch's own setting is restored afterwards."""
    from assay.timing import settings

    points: list[ThreadPoint] = []
    for count in counts:
        on_step(plural(count, "thread"))
        with settings.threads(count):
            points.append(ThreadPoint(count, figures.of_seconds(_bare(profiled, budget))))
    single_s = next((point.time.value for point in points if point.threads == 1), None)
    return [ThreadPoint(point.threads, point.time, _efficiency(single_s, point)) for point in points]


def _efficiency(single_s: float | None, point: ThreadPoint) -> float | None:
    """Parallel efficiency: the single-thread time divided by threads times the time; None if unknown."""
    if single_s is None or not point.time.value:
        return None
    return single_s / (point.threads * point.time.value)


def _bare(profiled: ProfiledModel, budget: Budget) -> list[int]:
    """Nanoseconds of bare passes."""
    with profiled.bench() as runner:
        return runner.repeat(budget)


def _point(
    profiled: ProfiledModel, axis: str, size: int, predicted: Figure, budget: Budget, limit: Figure
) -> SweepPoint:
    sizes = {axis: size}
    if limit.value is not None and predicted.value is not None and predicted.value > limit.value:
        return SweepPoint(sizes, memory=predicted, problem="not run: it does not fit into memory")
    try:
        with profiled.bench() as runner:
            growth = resident.of_pass(runner)
            samples = runner.repeat(budget)
    except Exception as error:  # noqa: BLE001  a model may raise anything at a size it does not support
        return SweepPoint(sizes, memory=predicted, problem=_problem(error))
    time = figures.of_seconds(samples)
    return SweepPoint(
        sizes,
        time=time,
        throughput=size / time.value if time.value else None,
        memory=predicted,
        measured_memory=growth,
    )


def _problem(error: BaseException) -> str:
    first = first_line(error)
    return f"out of memory: {first}" if "memory" in first.lower() else f"the model does not run: {first}"


def _predicted(predictor: Predictor, axis: str, size: int) -> Figure:
    try:
        return Figure(predictor.peak(**{axis: size}), _PREDICTED)
    except AssayError as error:
        return Figure(None, Unknown(str(error)))


def _knee(points: Sequence[SweepPoint], axis: str) -> int | None:
    """The smallest size with almost the best throughput; None with fewer than two measured sizes."""
    measured = [(point.sizes[axis], point.throughput) for point in points if point.throughput is not None]
    if len(measured) < 2:
        return None
    best = max(throughput for _, throughput in measured)
    return min(size for size, throughput in measured if throughput >= KNEE * best)


def _largest(predictor: Predictor, axis: str, limit: Figure) -> tuple[int | None, Figure]:
    """The largest batch that is predicted to fit into `limit` bytes, and that limit."""
    if axis != "batch" or limit.value is None:
        return None, NOT_MEASURED
    try:
        largest = largest_batch(lambda batch: predictor.peak(batch=batch), int(limit.value), limit=LARGEST_SEARCHED)
    except AssayError as error:
        return None, Figure(None, Unknown(f"not searched: {error}"))
    return largest.batch, limit
