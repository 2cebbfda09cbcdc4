"""The brief of one trace, of several, and of two compared: time, use of accelerators, and memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from statistics import median

from assay import units
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.provenance import Figure, Measured
from assay.document.trace import DeviceTimes, LayerChange, Trace, TraceDiff, TraceSet
from assay.findings.brief import Brief, BriefFigure, NotKnown, brief_of, largest_share
from assay.findings.catalogue import trace_rules
from assay.findings.engine import apply
from assay.messages import plural

CLOCK = "timestamps of the trace"
"""How the times of a trace were measured."""
_LEAST_UNATTRIBUTED = 0.01
"""A smaller share of accelerator time without a layer is not mentioned."""


def trace_findings(traces: Sequence[Trace]) -> list[Finding]:
    """The findings of the rules about traces."""
    return apply(trace_rules(), Document(traces=list(traces))).findings


def trace_brief(trace: Trace, findings: Sequence[Finding], *, next_step: str = "") -> Brief:
    """The brief of one trace; `next_step` is the command that shows more about the findings."""
    return brief_of(
        (
            trace.model_name,
            os.path.basename(trace.path),
            _rank(trace),
            plural(trace.events, "event"),
            plural(len(trace.layers), "layer") if trace.layers else "",
            "" if trace.complete else "partial: the file is truncated",
        ),
        [_time(trace), *_devices([trace]), *_memory([trace])],
        findings,
        _unknown([trace]),
        next_step=next_step,
        partial=not trace.complete,
    )


def set_brief(traces: TraceSet, members: Sequence[Trace], findings: Sequence[Finding]) -> Brief:
    """The brief of several traces of one model; `members` are the traces themselves."""
    return brief_of(
        (
            traces.model_name or "traces",
            plural(len(members), "trace"),
            plural(len(traces.ranks), "rank") if traces.ranks else "",
            plural(len(traces.layers), "layer"),
        ),
        [_times(traces, members), *_ranks(traces), *_devices(members), *_memory(members)],
        findings,
        _unknown(members),
        partial=not all(trace.complete for trace in members),
    )


def diff_brief(diff: TraceDiff) -> Brief:
    """The brief of a comparison: the change of the pass, and the layer that changed most."""
    total, changed = diff.total, [row for row in diff.layers if row.verdict not in ("same", "unknown")]
    most = max(changed, key=lambda row: abs(row.change_ns), default=None)
    unsure = [row for row in diff.layers if row.verdict == "unknown"]
    return brief_of(
        (
            "comparison of traces",
            f"{_passes(diff.before)} → {_passes(diff.after)}",
            f"{len(changed)} of {plural(len(diff.layers), 'layer')} changed" if changed or not unsure else "",
        ),
        [
            BriefFigure(
                "Time",
                Figure((total.after_ns or 0) / 1e9, Measured(CLOCK, len(diff.after))),
                "seconds",
                f"{'GPU' if diff.time == 'gpu' else 'CPU'} time per pass, {_change(total)}",
                f"{most.name} {_signed(most.change_ns)}" if most is not None else "",
            )
        ],
        (),
        [NotKnown(f"significance of {plural(len(unsure), 'change')}", "too few passes")] if unsure else (),
    )


def _rank(trace: Trace) -> str:
    if trace.rank is None:
        return ""
    return f"rank {trace.rank}" + (f" of {trace.world_size}" if trace.world_size is not None else "")


def _time(trace: Trace) -> BriefFigure:
    """The wall time, the median step, and the layer with the largest self time."""
    steps = [step.cpu_ns for step in trace.steps]
    text = f"wall time, {plural(len(steps), 'step')} of {_seconds(median(steps))} (median)" if steps else "wall time"
    whole = trace.gpu_ns or trace.cpu_ns
    own = {row.name: (row.gpu_self_ns or 0) if trace.gpu_ns else row.cpu_self_ns for row in trace.layers}
    shares = {name: time_ns / whole for name, time_ns in own.items()} if whole else {}
    return BriefFigure("Time", Figure(trace.wall_ns / 1e9, Measured(CLOCK)), "seconds", text, largest_share(shares))


def _times(traces: TraceSet, members: Sequence[Trace]) -> BriefFigure:
    """The median wall time with the range over all traces, and the layer with the largest self time."""
    walls = [trace.wall_ns / 1e9 for trace in members]
    whole = median(walls) * 1e9
    shares = {row.name: row.median_ns / whole for row in traces.layers} if whole else {}
    how = Measured(CLOCK, len(walls), range=(min(walls), max(walls)))
    return BriefFigure("Time", Figure(median(walls), how), "seconds", "wall time (median)", largest_share(shares))


def _ranks(traces: TraceSet) -> list[BriefFigure]:
    """The rank that works longest, if the ranks can be compared."""
    behind = [row for row in traces.ranks if row.behind is not None]
    if not behind:
        return []
    worst = max(behind, key=lambda row: row.behind or 0.0)
    late = sum(row.straggler for row in traces.ranks)
    text = f"longer than the median on rank {worst.rank}"
    detail = plural(late, "straggler") if late else "no stragglers"
    return [BriefFigure("Ranks", Figure(worst.behind, Measured(CLOCK)), "share", text, detail)]


def _devices(traces: Iterable[Trace]) -> list[BriefFigure]:
    """How much the least used accelerator was in use, why it was idle, and communication that nothing overlaps."""
    used = [device for trace in traces for device in trace.devices if device.span_ns]
    if not used:
        return []
    least = min(used, key=lambda device: device.busy_ns / device.span_ns)
    figures = [
        BriefFigure(
            "GPU",
            Figure(least.busy_ns / least.span_ns, Measured(CLOCK)),
            "share",
            "busy" if len(used) == 1 else f"busy, the least of {len(used)} ({least.name})",
            _idle(least),
        )
    ]
    exposed = max(used, key=_exposed)
    if _exposed(exposed):
        share = Figure(_exposed(exposed), Measured(CLOCK))
        figures.append(BriefFigure("Waiting", share, "share", "in communication that no compute overlaps"))
    return figures


def _idle(device: DeviceTimes) -> str:
    """`idle 34 %: waiting for the host`; empty if it was never idle."""
    causes = device.idle_causes
    if not device.idle_ns or not causes:
        return ""
    cause = max(causes, key=lambda one: causes[one])
    return f"{units.share(causes[cause], device.span_ns)} idle: {cause}"


def _exposed(device: DeviceTimes) -> float:
    return (device.communication_ns - device.communication_hidden_ns) / device.span_ns


def _memory(traces: Iterable[Trace]) -> list[BriefFigure]:
    """The largest peak of any device, and the layer that ran then."""
    used = [timeline for trace in traces for timeline in trace.memory]
    if not used:
        return []
    most = max(used, key=lambda timeline: timeline.peak_bytes)
    place = f", at {most.peak_layer}" if most.peak_layer else ""
    return [BriefFigure("Memory", Figure(most.peak_bytes, Measured(CLOCK)), "bytes", f"peak on {most.device}{place}")]


def _unknown(traces: Sequence[Trace]) -> list[NotKnown]:
    """What the traces do not contain, and how to record it."""
    unknown = []
    if any(not trace.complete for trace in traces):
        unknown.append(NotKnown("what follows the last event", "a file is truncated"))
    if not any(trace.layers for trace in traces):
        unknown.append(NotKnown("layers", "record with assay.capture_model, or with_modules=True"))
    if not any(trace.memory for trace in traces):
        unknown.append(NotKnown("memory", "record with profile_memory=True"))
    device_ns = sum(trace.gpu_ns or 0 for trace in traces)
    lost = [row for trace in traces for row in trace.unattributed]
    share = sum(row.gpu_ns for row in lost) / device_ns if device_ns else 0.0
    if share >= _LEAST_UNATTRIBUTED:
        reasons = ", ".join(dict.fromkeys(row.why for row in lost))
        unknown.append(NotKnown(f"layers of {units.share(share, 1)} of the GPU time", reasons))
    return unknown


def _passes(paths: Sequence[str]) -> str:
    return os.path.basename(paths[0]) if len(paths) == 1 else f"{len(paths)} passes"


def _change(row: LayerChange) -> str:
    """`before 12.1 ms: +1.4 ms, +11.6 %`."""
    if not row.before_ns:
        return "unknown before"
    relative = row.change_ns / row.before_ns
    verdict = ", not significant" if row.verdict == "same" else ""
    share = f"{'+' if relative > 0 else ''}{units.share(relative, 1)}"
    return f"before {_seconds(row.before_ns)}: {_signed(row.change_ns)}, {share}{verdict}"


def _signed(change_ns: float) -> str:
    return f"{'+' if change_ns > 0 else '-' if change_ns else ''}{_seconds(abs(change_ns))}"


def _seconds(time_ns: float) -> str:
    return units.seconds(time_ns / 1e9)
