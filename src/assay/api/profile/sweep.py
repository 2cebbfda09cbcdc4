"""Sweeps over input sizes and thread counts: time, throughput, memory, and the knee of the throughput."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from assay.analysis.memory import largest_batch
from assay.api.profile.conditions import quiet_pass
from assay.api.profile.pass_times import PassTimes
from assay.api.profile.predict import Predictor
from assay.api.profile.profiled import ProfiledModel
from assay.api.profile.stages import Stages
from assay.document.document import Document
from assay.document.machine import NOT_MEASURED
from assay.document.profile import LARGEST_SEARCHED, Sweep, SweepPoint, ThreadPoint
from assay.document.provenance import Figure, Unknown
from assay.errors import AssayError, UsageError
from assay.machine.load import OtherLoad
from assay.messages import first_line, plural
from assay.sources.resizing import axes, resized
from assay.timing import resident

if TYPE_CHECKING:
    from assay.timing.bench import Budget

KNEE = 0.9
"""The knee is the smallest size that reaches this share of the best throughput."""


def sweep(
    profiled: ProfiledModel,
    axis: str,
    sizes: Sequence[int],
    stages: Stages,
    budget: Callable[[], Budget],
    limit: Figure,
    optimizer: str = "adamw",
) -> Sweep:
    """Time and memory of passes at each size, smallest first; sizes that exceed `limit` bytes are not run."""
    varied = axes(profiled.inputs, [axis])
    predictor = Predictor(profiled, varied, optimizer)
    points = []
    for size in sorted(sizes):
        if not stages.begin(f"{axis} {size}"):
            continue
        predicted, fixed = _predicted(predictor, axis, size)
        step = _predicted(predictor, axis, size, backward=True)[0] if profiled.backward else NOT_MEASURED
        resized_model = profiled.with_inputs(resized(profiled.inputs, base=varied, **{axis: size}))
        point = _point(resized_model, axis, size, predicted, fixed, budget(), limit)
        points.append(replace(point, step_memory=step))
    searched = stages.begin(f"largest {axis}")
    if axis != "batch" or limit.value is None or not searched:
        return Sweep(axis, points, _knee(points, axis))
    largest, why = _largest(predictor, int(limit.value), stages)
    largest_step, _ = (
        _largest(predictor, int(limit.value), stages, backward=True) if profiled.backward else (None, "")
    )
    limit = limit if largest is not None else Figure(None, Unknown(f"not searched: {why}"))
    return Sweep(axis, points, _knee(points, axis), largest, largest_step, limit)


def threads(
    profiled: ProfiledModel,
    document: Document,
    counts: Sequence[int],
    stages: Stages,
    budget: Callable[[], Budget],
) -> list[ThreadPoint]:
    """Times of the pass and of its kinds of op with each thread count; torch's own setting is restored afterwards."""
    from assay.timing import settings

    points: list[ThreadPoint] = []
    for count in counts:
        if not stages.begin(plural(count, "thread")):
            continue
        with settings.threads(count):
            times = _times(profiled, document, budget())
        totals = [None if kind is None else kind.total_s for kind in times.kinds()]
        points.append(ThreadPoint(count, times.whole, kinds=totals))
    single = next((point for point in points if point.threads == 1), None)
    return [_with_efficiency(point, single) for point in points]


def _times(profiled: ProfiledModel, document: Document, budget: Budget) -> PassTimes:
    from assay.recorder import inventory
    from assay.timing.rounds import clock_rounds

    others = OtherLoad()
    with profiled.bench() as runner:
        rounds = clock_rounds(runner, inventory.take_inventory(profiled.opened.module).module_index, budget)
    return PassTimes(rounds, document, others.share())


def _with_efficiency(point: ThreadPoint, single: ThreadPoint | None) -> ThreadPoint:
    """The point with the parallel efficiency of the pass and of each kind of op."""
    if single is None:
        return point
    pairs = zip(single.kinds, point.kinds, strict=True)
    return replace(
        point,
        efficiency=_efficiency(single.time.value, point.time.value, point.threads),
        kind_efficiency=[_efficiency(alone, together, point.threads) for alone, together in pairs],
    )


def _efficiency(single_s: float | None, time_s: float | None, count: int) -> float | None:
    """Parallel efficiency: the single-thread time divided by threads times the time; None if unknown."""
    return None if single_s is None or not time_s else single_s / (count * time_s)


def _point(
    profiled: ProfiledModel, axis: str, size: int, predicted: Figure, fixed: int | None, budget: Budget, limit: Figure
) -> SweepPoint:
    sizes = {axis: size}
    if limit.value is not None and predicted.value is not None and predicted.value > limit.value:
        return SweepPoint(sizes, memory=predicted, problem="not run: it does not fit into memory")
    try:
        with profiled.bench() as runner:
            measured = resident.of_pass(runner.run, runner.device, fixed)
            clocks = runner.repeat(budget)
    except Exception as error:  # noqa: BLE001  a model may raise anything at a size it does not support
        return SweepPoint(sizes, memory=predicted, problem=_problem(error))
    time = quiet_pass(clocks)
    return SweepPoint(
        sizes,
        time=time,
        throughput=size / time.value if time.value else None,
        memory=predicted,
        measured_memory=measured,
    )


def _problem(error: BaseException) -> str:
    first = first_line(error)
    return f"out of memory: {first}" if "memory" in first.lower() else f"the model does not run: {first}"


def _predicted(predictor: Predictor, axis: str, size: int, *, backward: bool = False) -> tuple[Figure, int | None]:
    """The predicted peak, and the bytes of it that exist during the whole pass; the peak may be unknown."""
    try:
        occupancy = predictor.occupancy(backward=backward, **{axis: size})
    except AssayError as error:
        return Figure(None, Unknown(str(error))), None
    return occupancy.total, int(occupancy.resident.value or 0)


def _knee(points: Sequence[SweepPoint], axis: str) -> int | None:
    """The smallest size with almost the best throughput; None if that is the largest measured one."""
    measured = [(point.sizes[axis], point.throughput) for point in points if point.throughput is not None]
    if len(measured) < 2:
        return None
    best = max(throughput for _, throughput in measured)
    knee = min(size for size, throughput in measured if throughput >= KNEE * best)
    return knee if knee < max(size for size, _ in measured) else None


def _largest(predictor: Predictor, limit: int, stages: Stages, *, backward: bool = False) -> tuple[int | None, str]:
    """The largest batch of which a pass or a training step is predicted to fit into `limit` bytes, or why not."""

    def peak(batch: int) -> int:
        if stages.left_s == 0.0:
            raise UsageError("the time budget was spent")
        return predictor.peak(backward=backward, batch=batch)

    try:
        return largest_batch(peak, limit, limit=LARGEST_SEARCHED).batch, ""
    except AssayError as error:
        return None, str(error)
