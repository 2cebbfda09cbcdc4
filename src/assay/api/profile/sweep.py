"""A model at several sizes and with several numbers of threads: time, throughput, memory, the knee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.analysis.memory import largest_batch
from assay.api.options import OnStep
from assay.api.profile import figures, resident
from assay.api.profile.predict import Predictor
from assay.api.profile.profiled import ProfiledModel
from assay.document.machine import NOT_MEASURED
from assay.document.profile import Sweep, SweepPoint, ThreadPoint
from assay.document.provenance import Counted, Figure, Unknown
from assay.errors import AssayError, UsageError
from assay.messages import first_line
from assay.sources.resizing import axes, resized

if TYPE_CHECKING:
    from assay.timing.measuring import Budget

KNEE = 0.9
"""The share of the best throughput that is good enough."""

_PREDICTED = Counted("storages of a capture on shapes alone")


def parse(text: str) -> tuple[str, list[int]]:
    """The axis and its sizes: `parse("batch=1,2,4") == ("batch", [1, 2, 4])`."""
    name, _, sizes = text.partition("=")
    values = [part.strip() for part in sizes.split(",")]
    if not name or not all(value.isdecimal() and int(value) for value in values):
        raise UsageError(f"a sweep is written batch=1,2,4, got {text!r}")
    return name.strip(), list(dict.fromkeys(int(value) for value in values))


def sweep(
    profiled: ProfiledModel, axis: str, sizes: Sequence[int], budget: Budget, limit: Figure, on_step: OnStep
) -> Sweep:
    """Passes at each size, smallest first; sizes that do not fit into `limit` bytes are not run."""
    found = axes(profiled.inputs, [axis])
    predictor = Predictor(profiled, found)
    points = []
    for size in sorted(sizes):
        on_step(f"{axis} {size}")
        predicted = _predicted(predictor, axis, size)
        points.append(_point(profiled.with_inputs(resized(profiled.inputs, base=found, **{axis: size})),
                             axis, size, predicted, budget, limit))  # fmt: skip
    return Sweep(axis, points, _knee(points, axis), *_largest(predictor, axis, limit))


def threads(profiled: ProfiledModel, counts: Sequence[int], budget: Budget, on_step: OnStep) -> list[ThreadPoint]:
    """The pass with each number of threads; the setting is put back."""
    from assay.timing import settings

    points: list[ThreadPoint] = []
    for count in counts:
        on_step(f"{count} threads")
        with settings.threads(count):
            points.append(ThreadPoint(count, figures.of_seconds(_bare(profiled, budget))))
    alone = next((point.time.value for point in points if point.threads == 1), None)
    return [ThreadPoint(point.threads, point.time, _efficiency(alone, point)) for point in points]


def _efficiency(alone: float | None, point: ThreadPoint) -> float | None:
    if alone is None or not point.time.value:
        return None
    return alone / (point.threads * point.time.value)


def _bare(profiled: ProfiledModel, budget: Budget) -> list[int]:
    from assay.timing.measuring import bench

    inputs = profiled.inputs
    with bench(profiled.opened.module, inputs.args, inputs.kwargs, profiled.setting()) as stand:
        return stand.repeat(budget)


def _point(
    profiled: ProfiledModel, axis: str, size: int, predicted: Figure, budget: Budget, limit: Figure
) -> SweepPoint:
    from assay.timing.measuring import bench

    sizes = {axis: size}
    if limit.value is not None and predicted.value is not None and predicted.value > limit.value:
        return SweepPoint(sizes, memory=predicted, problem="not run: it does not fit into memory")
    inputs = profiled.inputs
    try:
        with bench(profiled.opened.module, inputs.args, inputs.kwargs, profiled.setting()) as stand:
            grown = resident.of_pass(stand)
            samples = stand.repeat(budget)
    except Exception as error:  # noqa: BLE001  a model may raise anything at a size it was not made for
        return SweepPoint(sizes, memory=predicted, problem=_problem(error))
    time = figures.of_seconds(samples)
    return SweepPoint(
        sizes,
        time=time,
        throughput=size / time.value if time.value else None,
        memory=predicted,
        measured_memory=grown,
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
    known = [(point.sizes[axis], point.throughput) for point in points if point.throughput is not None]
    if len(known) < 2:
        return None
    best = max(throughput for _, throughput in known)
    return min(size for size, throughput in known if throughput >= KNEE * best)


def _largest(predictor: Predictor, axis: str, limit: Figure) -> tuple[int | None, Figure]:
    """The largest batch that fits by prediction, and the bytes it was held against."""
    if axis != "batch" or limit.value is None:
        return None, NOT_MEASURED
    try:
        found = largest_batch(lambda batch: predictor.peak(batch=batch), int(limit.value), limit=1 << 14)
    except AssayError as error:
        return None, Figure(None, Unknown(f"not searched: {error}"))
    return found.batch, limit
