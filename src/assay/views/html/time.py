"""Time for the page: where it goes, one pass as a timeline, and throughput over input sizes and threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from assay import units
from assay.analysis.name_ranges import odd_text
from assay.analysis.time_split import TimeRow, TimeSplit, time_split
from assay.document import tree
from assay.document.document import Document
from assay.document.profile import Sweep
from assay.document.provenance import Figure, Measured
from assay.views.html.columns import provenance, round_number
from assay.views.html.convert import block_of
from assay.views.html.page import (
    AnyBlock,
    Bar,
    BarsBlock,
    Line,
    LinesBlock,
    NotesBlock,
    PageAxis,
    PageView,
    SpansBlock,
)
from assay.views.html.subject import Subject
from assay.views.tables import percent, printable
from assay.views.text.profile import conditions_lines, facts, sweep_table, thread_table

SPANS = "spans"
_LAYERS = 20
"""Modules whose own time is drawn with its range."""


class Spans(Struct, frozen=True):
    """One pass on the time axis, in preorder: calls and the ops in them."""

    start_s: list[float]
    duration_s: list[float]
    depth: list[int]
    words: list[str]
    names: list[int]
    paths: list[int]
    op: list[int]
    how: str


def time_view(subject: Subject) -> PageView:
    """Where the time of a pass goes."""
    document, profile = subject.document, subject.document.profile
    if profile is None or document.timing is None:
        return PageView("time", "Time", [], f"Nothing was timed. Run `assay analyze {subject.model} --inference`.")
    blocks: list[AnyBlock] = [NotesBlock(lines=[line]) for line in conditions_lines(document)]
    blocks += [*_split_block(document), *_layer_block(document)]
    if profile.ops and any(seconds is not None for seconds in profile.ops):
        blocks.append(SpansBlock(title="One pass", caption=_spans_caption(document), section=SPANS))
    blocks.append(block_of(facts(document, profile), "time-facts", "Measurements"))
    for sweep in profile.sweeps:
        blocks += _sweep_blocks(sweep)
    if profile.thread_points:
        blocks += [*_threads_block(subject), block_of(thread_table(profile), "threads")]
    return PageView(
        "time", "Time", [*blocks, *([NotesBlock(title="Notes", lines=profile.notes)] if profile.notes else [])]
    )


def _split_block(document: Document) -> Iterator[AnyBlock]:
    split = time_split(document)
    if split is None or document.timing is None:
        return
    method, how = provenance(document.timing.whole.how)
    rows = [*split.rows, *split.rest]
    seconds = all(row.seconds is not None for row in rows)
    yield BarsBlock(
        title="Where the time goes",
        caption=_split_caption(split),
        unit="seconds" if seconds else "share",
        method=method,
        how=how,
        bars=[
            Bar(
                f"{printable(row.name)}{f' ×{row.count}' if row.count > 1 else ''}{' (own ops)' if row.own else ''}",
                _rounded((row.seconds or 0.0) if seconds else row.share),
                note=" · ".join(filter(None, (row.class_name, percent(row.share), _odd(row)))),
                link=printable(row.name) if row.count == 1 else "",
            )
            for row in rows
        ],
    )


def _split_caption(split: TimeSplit) -> str:
    if not split.rows:
        return ""
    first = split.rows[0]
    clock = " on the accelerator" if split.on_device else ""
    return f"{percent(first.share)} of the pass{clock} is spent in {printable(first.name)}."


def _odd(row: TimeRow) -> str:
    return odd_text(row.name, *row.odd) if row.odd is not None else ""


def _layer_block(document: Document) -> Iterator[AnyBlock]:
    """The modules with the longest own time, each with its range in this run."""
    timing = document.timing
    if timing is None:
        return
    timed = [
        (module, time) for module, time in zip(document.modules, timing.modules, strict=False) if time is not None
    ]
    longest = sorted((pair for pair in timed if pair[1].self_s), key=lambda pair: -(pair[1].self_s or 0.0))
    kept = longest[:_LAYERS]
    if not kept:
        return
    method, how = provenance(timing.columns.get("modules.self_s") or timing.whole.how)
    whole = sum(time.self_s or 0.0 for _, time in longest)
    share = sum(time.self_s or 0.0 for _, time in kept) / whole
    yield BarsBlock(
        title="Own time of single modules",
        caption=f"The {len(kept)} longest of {len(longest):,} take {percent(share)} of the time in modules.",
        unit="seconds",
        method=method,
        how=how,
        bars=[
            Bar(
                printable(tree.path_text(module.path)),
                _rounded(time.self_s or 0.0),
                # The range is of the total; it is that of the own time if there is nothing else in it.
                low=_range_end(time.low_s) if time.self_s == time.total_s else None,
                high=_range_end(time.high_s) if time.self_s == time.total_s else None,
                note=module.class_name,
                link=printable(module.path),
            )
            for module, time in kept
        ],
    )


def _spans_caption(document: Document) -> str:
    known = [seconds for seconds in document.profile.ops if seconds is not None] if document.profile else []
    unknown = len(document.ops) - len(known)
    text = f"{len(known):,} ops end to end, {units.seconds(sum(known))}; Python time between them is not drawn"
    return f"{text}; {unknown:,} ops without a time are left out." if unknown else f"{text}."


def pass_spans(document: Document) -> Spans:
    """The calls and ops of the timed pass, one op after another."""
    index: dict[str, int] = {}

    def word(text: str) -> int:
        return index.setdefault(printable(text), len(index))

    spans: list[tuple[float, int, int, int, int]] = []
    ends: list[float] = []
    open_calls: list[tuple[int, int]] = []
    now = 0.0
    profile = document.profile
    for op, seconds in zip(document.ops, profile.ops if profile is not None else [], strict=False):
        if seconds is None:
            continue
        around = _calls_around(document, op.call)
        common = sum(1 for one, other in zip(around, (call for call, _ in open_calls), strict=False) if one == other)
        for _, span in open_calls[common:]:
            ends[span] = now
        del open_calls[common:]
        for call in around[common:]:
            module = document.modules[document.calls[call].module]
            path = tree.path_text(module.path)
            open_calls.append((call, len(spans)))
            spans.append((now, len(open_calls) - 1, word(module.class_name), word(path), 0))
            ends.append(now)
        where = spans[open_calls[-1][1]][3] if open_calls else word(tree.ROOT)
        spans.append((now, len(open_calls), word(units.op(document.kinds[op.kind].name)), where, 1))
        now += seconds
        ends.append(now)
    for _, span in open_calls:
        ends[span] = now
    how = profile.columns.get("ops") if profile is not None else None
    return Spans(
        start_s=[_rounded(start, 6) for start, *_ in spans],
        duration_s=[_rounded(end - one[0]) for one, end in zip(spans, ends, strict=True)],
        depth=[one[1] for one in spans],
        names=[one[2] for one in spans],
        paths=[one[3] for one in spans],
        op=[one[4] for one in spans],
        words=list(index),
        how=provenance(how)[1],
    )


def _calls_around(document: Document, call: int) -> list[int]:
    """The call and those around it, outermost first."""
    around: list[int] = []
    at: int | None = call if call >= 0 else None
    while at is not None:
        around.append(at)
        at = document.calls[at].parent
    return around[::-1]


def _sweep_blocks(sweep: Sweep) -> list[AnyBlock]:
    """Throughput over the swept sizes, and the table."""
    points = [point for point in sweep.points if point.throughput is not None]
    rates = LinesBlock(
        title=f"Throughput over {sweep.axis}",
        caption=_knee(sweep),
        x=PageAxis(sweep.axis, "exact", [float(point.sizes[sweep.axis]) for point in points]),
        series=[Line("per second", [point.throughput for point in points], method="measured")],
        unit="count",
    )
    return [*([rates] if len(points) > 1 else []), block_of(sweep_table(sweep), f"sweep-{sweep.axis}")]


def _knee(sweep: Sweep) -> str:
    if sweep.knee is None:
        return f"Throughput still grows at the largest {sweep.axis} that was measured."
    return f"{sweep.axis} {sweep.knee:,} reaches at least 90 % of the best throughput."


def _threads_block(subject: Subject) -> list[AnyBlock]:
    points = subject.document.profile.thread_points if subject.document.profile is not None else []
    low, high = _ends([point.time for point in points])
    line = Line("pass", [point.time.value for point in points], low, high, "measured")
    axis = PageAxis("threads", "exact", [float(point.threads) for point in points])
    return [LinesBlock(title="Time over threads", x=axis, series=[line], unit="seconds")] if len(points) > 1 else []


def _ends(figures: Sequence[Figure]) -> tuple[list[float | None], list[float | None]]:
    """The ends of the ranges of measured figures."""
    ranges = [one.how.range if isinstance(one.how, Measured) and one.how.range else (None, None) for one in figures]
    return [low for low, _ in ranges], [high for _, high in ranges]


def _range_end(value: float | None) -> float | None:
    return None if value is None else _rounded(value)


def _rounded(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}") if digits != 4 else float(round_number(float(value)) or 0.0)
