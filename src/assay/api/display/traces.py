"""Previews of traces."""

from __future__ import annotations

from collections.abc import Sequence

from assay.api.display.preview import Preview, parts_of_report, preview
from assay.document.document import Document
from assay.document.provenance import Figure, Measured, Unknown
from assay.document.trace import Trace, TraceDiff, Traces, TraceSet
from assay.findings.brief import Brief, BriefFigure, NotKnown, largest_share
from assay.findings.brief_trace import CLOCK, diff_brief, trace_brief, trace_findings
from assay.messages import plural
from assay.views.html.compact import ROWS, Part
from assay.views.text.traces import across_parts, change_parts
from assay.views.text.traces_tables import BREAKDOWNS, TraceOptions

_MODELS = 4
"""Models whose times a preview of many traces shows."""
_OPTIONS = TraceOptions(top=ROWS)


def of_trace(trace: Trace) -> Preview:
    """The time of a trace, the use of accelerators, memory, and what the rules about traces find."""
    brief = trace_brief(trace, trace_findings([trace]))
    return preview(brief, lambda: trace_parts(trace), Document(traces=[trace]))


def of_diff(diff: TraceDiff) -> Preview:
    """How the time of a pass changed, and which layers changed most."""
    return preview(
        diff_brief(diff), parts=lambda: parts_of_report(change_parts(diff, _OPTIONS)) if diff.layers else ()
    )


def of_traces(traces: Traces) -> Preview:
    """The time per pass of each model, and the files that could not be read."""
    models, files = traces.models, sum(len(one.paths) for one in traces.models)
    unread = [NotKnown(path, why) for path, why in traces.failures.items()]
    more = len(models) - _MODELS
    brief = Brief(
        identity=(plural(files, "trace"), plural(len(models), "model"), *([f"{more} not shown"] if more > 0 else [])),
        figures=[_time(one) for one in models[:_MODELS]],
        unknown=unread[:_MODELS],
    )
    return preview(brief, parts=lambda: [part for one in models[:_MODELS] for part in _set_parts(one)])


def trace_parts(trace: Trace) -> Sequence[Part]:
    """The layers with the most time; without layers, the ops."""
    division = BREAKDOWNS["layer" if trace.layers else "op"]
    table = division.table(trace, _OPTIONS)
    return [division.title, table] if table.rows else ()


def _time(traces: TraceSet) -> BriefFigure:
    """The self times of all layers together, per pass."""
    whole = sum(layer.median_ns for layer in traces.layers)
    shares = {layer.name: layer.median_ns / whole for layer in traces.layers} if whole else {}
    slow = sum(rank.straggler for rank in traces.ranks)
    text = f"{'GPU' if traces.time == 'gpu' else 'CPU'} time of {plural(len(traces.layers), 'layer')} per pass"
    late = f"; {plural(slow, 'straggler')}" if slow else ""
    how = Measured(CLOCK, len(traces.paths))
    figure = Figure(whole / 1e9, how) if traces.layers else Figure(None, Unknown("no layers in these traces"))
    return BriefFigure(traces.model_name or "Time", figure, "seconds", text, f"{largest_share(shares)}{late}")


def _set_parts(traces: TraceSet) -> Sequence[Part]:
    return parts_of_report(across_parts(traces, _OPTIONS)) if traces.layers else ()
