"""Previews of what a pass costs: cost, memory, roofline and scaling formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay import units
from assay.analysis.laws.law import Law, Laws
from assay.analysis.laws.samples import QUANTITIES
from assay.analysis.memory import Memory
from assay.analysis.memory.totals import Occupancy
from assay.analysis.roofline import COMPUTE, Roofline
from assay.api.display.preview import Preview, parts_of_report, preview, with_all_columns
from assay.document.cost import Cost, CostTotals
from assay.document.document import Document
from assay.document.provenance import Counted, Figure, Unknown
from assay.findings.brief import Brief, BriefFigure, NotKnown, Unit, largest_share
from assay.messages import plural
from assay.views.html.compact import Part
from assay.views.partial import coverage_text
from assay.views.tables import Column, Table, percent
from assay.views.text.amounts import if_recorded, part_of
from assay.views.text.laws import law_table
from assay.views.text.memory import sizes_table
from assay.views.text.roofline import report as roofline_report

_NO_PASS = Unknown("no pass was recorded")
_LAWS: dict[str, Unit] = {
    "macs": "count",
    "pointwise_flops": "count",
    "written": "bytes",
    "peak_activations": "bytes",
    "cache": "bytes",
}
"""The quantities whose formulas a preview shows, with the units of their values."""


class _CategoryRow(NamedTuple):
    name: str
    sums: CostTotals
    share: float | None


_CATEGORIES: tuple[Column[_CategoryRow], ...] = (
    Column("type of op", lambda row: row.name),
    Column("share of FLOPs", lambda row: row.share, "right", percent, bar=True),
    Column("ops", lambda row: row.sums.ops, "right", units.exact),
    Column("FLOPs", lambda row: row.sums.flops, "right", units.count),
    Column("MACs", lambda row: row.sums.macs if row.sums.known else None, "right", units.count),
    Column("bytes", lambda row: if_recorded(row.sums.bytes, row.sums), "right", units.size),
)


def of_cost(cost: Cost) -> Preview:
    """The FLOPs, MACs and bytes of a pass, and the types of op that they belong to."""
    forward = cost.forward
    whole = forward.flops
    shares = {name: (sums.flops or 0) / whole for name, sums in cost.categories.items()} if whole else {}
    passes = "one forward pass" if cost.backward is None else "one forward and one backward pass"
    moved, read = if_recorded(forward.bytes, forward), forward.read_parameters
    figures = [
        _counted("Compute", whole, cost.convention, "count", "FLOPs per pass", largest_share(shares)),
        _counted("MACs", forward.macs if forward.known else None, cost.convention, "count", "per pass"),
        _counted("Traffic", moved, "bytes of operands", "bytes", "per pass", f"{units.size(read)} of parameters"),
    ]
    if cost.backward is not None:
        figures.insert(1, _counted("Backward", cost.backward.flops, cost.convention, "count", "FLOPs"))
    identity = (passes, plural(forward.ops, "op"), coverage_text(cost))
    unknown = [NotKnown(f"cost of {plural(one.count, 'execution')} of {one.target}", one.why) for one in cost.unknown]
    brief = Brief(identity if forward.recorded else identity[:1], figures, unknown=unknown, partial=cost.partial)
    return preview(brief, lambda: category_parts(cost), Document(cost=cost))


def category_parts(cost: Cost) -> Sequence[Part]:
    """The types of op of a pass."""
    whole = cost.forward.flops
    rows = [_CategoryRow(name, sums, part_of(sums.flops, whole)) for name, sums in cost.categories.items()]
    return ["By type of op", Table(_CATEGORIES, rows)] if rows else ()


def of_memory(memory: Memory) -> Preview:
    """The memory of the weights, of a pass and of a training step."""
    figures = [
        BriefFigure("Inference", memory.inference_peak, "bytes", _peak(memory.inference)),
        BriefFigure("Weights", memory.parameters, "bytes", "", _buffers(memory)),
    ]
    if memory.training is not None:
        state = f"{units.size(memory.optimizer.bytes.value)} {memory.optimizer.name} state"
        figures.append(BriefFigure("Training", memory.training_peak, "bytes", _peak(memory.training), state))
    if memory.cache is not None:
        captured = memory.cache.captured
        text = f"for {plural(captured.batch, 'sequence')} of {plural(captured.length, 'token')}"
        figures.append(BriefFigure("KV cache", memory.cache.at(captured.batch, captured.length), "bytes", text))
    unknown = [] if memory.training is not None else [NotKnown("memory for training", _why(memory.training_peak))]
    brief = Brief(
        ("inference" if memory.training is None else "inference and training",),
        figures,
        unknown=unknown,
        partial=memory.partial,
    )
    return preview(brief, parts=lambda: ["Sizes", with_all_columns(sizes_table(memory))])


def of_roofline(roofline: Roofline) -> Preview:
    """The least time of a pass on a device, and what limits it."""
    coverage, how = roofline.coverage, roofline.how
    bound = Figure(None, _NO_PASS) if roofline.bound_s is None else Figure(roofline.bound_s, how)
    compute = part_of(roofline.by.get(COMPUTE), roofline.bound_s)
    figures = [BriefFigure("Time", bound, "seconds", "per pass at least")]
    if compute is not None:
        text, share = ("compute-bound", compute) if compute >= 0.5 else ("memory-bound", 1 - compute)
        figures.append(BriefFigure("Limit", Figure(share, how), "share", f"of the time {text}"))
    missing = coverage.total - coverage.known
    unknown = [NotKnown(f"time of {plural(missing, 'op')}", ", ".join(coverage.unknown))] if missing else []
    identity = (roofline.device, f"{coverage.known:,} of {plural(coverage.total, 'op')} modelled")
    return preview(
        Brief(identity, figures, unknown=unknown, partial=roofline.partial),
        parts=lambda: ["Ops by their least time", *parts_of_report(roofline_report(roofline).parts[1:])],
    )


def of_laws(laws: Laws) -> Preview:
    """The values at the original sizes, with the formulas they follow."""
    at = ", ".join(f"{name}={size}" for name, size in laws.base.items())
    by = f"the formula, which {plural(len(laws.points), 'recorded pass', 'recorded passes')} confirm"
    named = [(QUANTITIES[name].title, unit, laws[name]) for name, unit in _LAWS.items() if name in laws]
    figures = [_counted(title, law(**laws.base), by, unit, f"at {at}", str(law)) for title, unit, law in named if law]
    refused = [NotKnown(f"formula for {QUANTITIES[name].title}", why) for name, why in laws.refused.items()]
    identity = (
        f"scaling formulas of {laws.model}",
        f"in {', '.join(laws.variables)}",
        plural(len(laws.laws), "formula", "formulas"),
    )
    return preview(
        Brief(identity, figures, unknown=refused), parts=lambda: ["Formulas", law_table(laws, [laws.base])]
    )


def of_law(law: Law) -> Preview:
    """The formula, and the sizes for which it holds."""
    condition = f"for {law.condition}" if law.condition else ""
    return preview(Brief(tuple(filter(None, (str(law), condition)))))


def _counted(label: str, value: int | None, by: str, unit: Unit, text: str, detail: str = "") -> BriefFigure:
    figure = Figure(None, _NO_PASS) if value is None else Figure(value, Counted(by))
    return BriefFigure(label, figure, unit, text, detail if value is not None else "")


def _peak(usage: Occupancy | None) -> str:
    if usage is None:
        return "peak"
    return f"peak, at {usage.peak.module}" if usage.peak.module else "peak"


def _buffers(memory: Memory) -> str:
    return f"{units.size(memory.buffers.value)} of buffers" if memory.buffers.value else ""


def _why(figure: Figure) -> str:
    return figure.how.why if isinstance(figure.how, Unknown) else ""
