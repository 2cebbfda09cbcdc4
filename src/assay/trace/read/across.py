"""Several traces of one model: how layers vary over passes, which rank holds the others up, how uneven layers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assay.document.trace import LayerAcross, RankTimes, Trace, TraceSet

_STRAGGLES = 0.05
"""A rank that works this much longer than the median one is called a straggler."""


def trace_sets(traces: Sequence[Trace]) -> list[TraceSet]:
    """A set for each model among `traces`, in the order they came."""
    models: dict[str, list[Trace]] = {}
    for trace in traces:
        models.setdefault(trace.model_name, []).append(trace)
    return [_set(model, found) for model, found in models.items()]


def _set(model: str, traces: list[Trace]) -> TraceSet:
    time = compared_time(traces)
    ranks: dict[int, list[Trace]] = {}
    for trace in traces:
        if trace.rank is not None:
            ranks.setdefault(trace.rank, []).append(trace)
    several = ranks if len(ranks) > 1 else {}
    ranked = sum(map(len, several.values()))
    notes = [f"{len(traces) - ranked} traces do not say their rank"] if several and ranked < len(traces) else []
    return TraceSet(
        model_name=model,
        time=time,
        paths=tuple(trace.path for trace in traces),
        layers=_layers(traces, several, time),
        ranks=_ranks(several),
        notes=tuple(notes),
    )


def compared_time(traces: Sequence[Trace]) -> str:
    """`gpu` where every trace has accelerator time, else `cpu`."""
    return "gpu" if traces and all(trace.gpu_ns for trace in traces) else "cpu"


def own_times(trace: Trace, time: str) -> dict[str, int]:
    """The own time of each layer of a trace, on accelerators without communication: that is where ranks wait."""
    if time == "cpu":
        return {layer.name: layer.cpu_self_ns for layer in trace.layers}
    return {layer.name: (layer.gpu_self_ns or 0) - (layer.communication_ns or 0) for layer in trace.layers}


def _layers(traces: list[Trace], ranks: dict[int, list[Trace]], time: str) -> list[LayerAcross]:
    every = [own_times(trace, time) for trace in traces]
    by_rank = {rank: [own_times(trace, time) for trace in found] for rank, found in sorted(ranks.items())}
    names = dict.fromkeys(name for times in every for name in times)
    return [_layer(name, every, by_rank) for name in names]


def _layer(name: str, every: list[dict[str, int]], by_rank: dict[int, list[dict[str, int]]]) -> LayerAcross:
    values = np.array([times[name] for times in every if name in times], dtype=np.int64)
    low, high = np.percentile(values, (25, 75))
    slowest = imbalance = None
    if by_rank:
        medians = {rank: median([times.get(name, 0) for times in found]) for rank, found in by_rank.items()}
        slowest = max(medians, key=lambda rank: medians[rank])
        mean = sum(medians.values()) / len(medians)
        imbalance = medians[slowest] / mean - 1 if mean else None
    return LayerAcross(
        name=name,
        median_ns=median(values.tolist()),
        min_ns=int(values.min()),
        max_ns=int(values.max()),
        spread_ns=round((high - low) / 2) if len(values) > 1 else None,
        seen_in=len(values),
        slowest=slowest,
        imbalance=imbalance,
    )


def _ranks(ranks: dict[int, list[Trace]]) -> list[RankTimes]:
    """A row for each rank; those that worked clearly longer than the others are marked."""
    work = {rank: _over(found, working_ns) for rank, found in ranks.items()}
    cpu = {rank: _over(found, lambda trace: trace.cpu_ns) for rank, found in ranks.items()}
    busy = {rank: value if value is not None else cpu[rank] for rank, value in work.items()}
    typical = median([value for value in busy.values() if value is not None]) if busy else 0
    rows = []
    for rank, found in sorted(ranks.items()):
        mine = busy[rank]
        behind = mine / typical - 1 if typical and mine is not None else None
        rows.append(
            RankTimes(
                rank=rank,
                passes=len(found),
                wall_ns=_over(found, lambda trace: trace.wall_ns) or 0,
                cpu_ns=cpu[rank] or 0,
                gpu_ns=_over(found, lambda trace: trace.gpu_ns),
                communication_ns=_over(found, communication_ns),
                working_ns=work[rank],
                behind=behind,
                straggler=behind is not None and behind >= _STRAGGLES,
            )
        )
    return rows


def communication_ns(trace: Trace) -> int | None:
    """Accelerator time in communication; None without an accelerator."""
    if trace.gpu_ns is None:
        return None
    return sum(row.gpu_ns for row in trace.kernels if row.kind == "communication")


def working_ns(trace: Trace) -> int | None:
    """Accelerator time outside communication; None without an accelerator."""
    waiting = communication_ns(trace)
    return None if waiting is None or trace.gpu_ns is None else trace.gpu_ns - waiting


def _over(traces: list[Trace], figure: Callable[[Trace], int | None]) -> int | None:
    """The median of a figure over passes; None where one of them does not have it."""
    values = [figure(trace) for trace in traces]
    known = [value for value in values if value is not None]
    return median(known) if known and len(known) == len(values) else None


def median(values: Sequence[int]) -> int:
    """The middle one, or the mean of the two in the middle, as a whole number."""
    return round(float(np.median(np.array(values, dtype=np.int64))))
