"""Several traces of one model: variation of layers over passes, straggling ranks, imbalance between ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assay.document.trace import LayerAcross, RankTimes, Trace, TraceSet
from assay.messages import plural

_STRAGGLES = 0.05
"""A rank is a straggler if it works longer than the median rank by at least this share."""


def trace_sets(traces: Sequence[Trace]) -> list[TraceSet]:
    """One set per model among `traces`, in order of first appearance."""
    models: dict[str, list[Trace]] = {}
    for trace in traces:
        models.setdefault(trace.model_name, []).append(trace)
    return [_set(model, of_model) for model, of_model in models.items()]


def _set(model: str, traces: list[Trace]) -> TraceSet:
    time = compared_time(traces)
    ranks: dict[int, list[Trace]] = {}
    for trace in traces:
        if trace.rank is not None:
            ranks.setdefault(trace.rank, []).append(trace)
    several = ranks if len(ranks) > 1 else {}
    ranked = sum(map(len, several.values()))
    unranked = len(traces) - ranked
    notes = [f"{plural(unranked, 'trace')} without a rank"] if several and unranked else []
    return TraceSet(
        model_name=model,
        time=time,
        paths=tuple(trace.path for trace in traces),
        layers=_layers(traces, several, time),
        ranks=_ranks(several),
        notes=tuple(notes),
    )


def compared_time(traces: Sequence[Trace]) -> str:
    """`gpu` if every trace has accelerator time, else `cpu`."""
    return "gpu" if traces and all(trace.gpu_ns for trace in traces) else "cpu"


def self_times(trace: Trace, time: str) -> dict[str, int]:
    """The self time of each layer of a trace; accelerator time excludes communication, in which ranks wait."""
    if time == "cpu":
        return {layer.name: layer.cpu_self_ns for layer in trace.layers}
    return {layer.name: (layer.gpu_self_ns or 0) - (layer.communication_ns or 0) for layer in trace.layers}


def _layers(traces: list[Trace], ranks: dict[int, list[Trace]], time: str) -> list[LayerAcross]:
    every = [self_times(trace, time) for trace in traces]
    by_rank = {rank: [self_times(trace, time) for trace in passes] for rank, passes in sorted(ranks.items())}
    names = dict.fromkeys(name for times in every for name in times)
    return [_layer(name, every, by_rank) for name in names]


def _layer(name: str, every: list[dict[str, int]], by_rank: dict[int, list[dict[str, int]]]) -> LayerAcross:
    values = np.array([times[name] for times in every if name in times], dtype=np.int64)
    low, high = np.percentile(values, (25, 75))
    slowest = imbalance = None
    if by_rank:
        medians = {rank: median([times.get(name, 0) for times in passes]) for rank, passes in by_rank.items()}
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
    """One row per rank; ranks that worked clearly longer than the median rank are marked as stragglers."""
    work = {rank: _over(passes, working_ns) for rank, passes in ranks.items()}
    cpu = {rank: _over(passes, lambda trace: trace.cpu_ns) for rank, passes in ranks.items()}
    busy = {rank: value if value is not None else cpu[rank] for rank, value in work.items()}
    typical = median([value for value in busy.values() if value is not None]) if busy else 0
    rows = []
    for rank, passes in sorted(ranks.items()):
        rank_busy = busy[rank]
        behind = rank_busy / typical - 1 if typical and rank_busy is not None else None
        rows.append(
            RankTimes(
                rank=rank,
                passes=len(passes),
                wall_ns=_over(passes, lambda trace: trace.wall_ns) or 0,
                cpu_ns=cpu[rank] or 0,
                gpu_ns=_over(passes, lambda trace: trace.gpu_ns),
                communication_ns=_over(passes, communication_ns),
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
    """The median of `figure` over passes; None if it is unknown for any of them."""
    values = [figure(trace) for trace in traces]
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers and len(numbers) == len(values) else None


def median(values: Sequence[int]) -> int:
    """The median, rounded to a whole number."""
    return round(float(np.median(np.array(values, dtype=np.int64))))
