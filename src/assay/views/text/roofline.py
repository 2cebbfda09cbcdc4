"""The roofline table: the minimum time of each kind of op, and its bottleneck."""

from __future__ import annotations

from assay import units
from assay.analysis.roofline import COMPUTE, NOTHING, KindBound, Roofline
from assay.messages import plural
from assay.views.partial import marked_total
from assay.views.tables import Column, Table, percent
from assay.views.text.amounts import part_of
from assay.views.text.report import Report


def table(roofline: Roofline) -> Table:
    """One row per kind of op, longest minimum time first; FLOPs and bytes are per execution."""
    columns: tuple[Column[KindBound], ...] = (
        Column("op", lambda kind: kind.name, show=units.op, shrinks=True, cuts="middle"),
        Column("inputs", lambda kind: units.shapes(kind.shapes), shrinks=True, keeps=-8),
        Column("count", lambda kind: kind.count, "right", units.exact),
        Column("precision", lambda kind: kind.precision, drops=True),
        Column("FLOPs", lambda kind: kind.flops, "right", units.count, drops=True),
        Column("bytes", lambda kind: kind.bytes, "right", units.size, drops=True),
        Column("bound per op", lambda kind: kind.seconds, "right", units.seconds, drops=True, name="bound each s"),
        Column("total bound", lambda kind: kind.total_s, "right", units.seconds, name="bound s"),
        Column("share", lambda kind: part_of(kind.total_s, roofline.bound_s), "right", percent, bar=True),
        Column("bottleneck", lambda kind: kind.by, show=_bottleneck, name="bound by"),
    )
    return Table(columns, sorted(roofline.kinds, key=lambda kind: (-(kind.total_s or 0), kind.kind)))


def _bottleneck(bound_by: str) -> str:
    """The bottleneck as shown to people: a dash for an op that neither computes nor moves data."""
    return units.UNKNOWN if bound_by == NOTHING else bound_by


def report(roofline: Roofline) -> Report:
    """The minimum time of the pass, and the table of its kinds of op."""
    kinds = table(roofline)
    return Report([headline(roofline), kinds], kinds)


def headline(roofline: Roofline) -> str:
    """The minimum time of the pass in one line, with the number of ops it covers."""
    coverage = roofline.coverage
    compute = units.share(roofline.by.get(COMPUTE), roofline.bound_s)
    missing = f"; not covered: {', '.join(coverage.unknown)}" if coverage.unknown else ""
    covered = f"{units.exact(coverage.known)} of {plural(coverage.total, 'op')} modelled{missing}"
    if not coverage.total and roofline.bound_s is None:
        covered = "no ops recorded"
    bound = marked_total(units.seconds(roofline.bound_s), partial=roofline.partial)
    return f"At least {bound} on {roofline.device} (modelled lower bound: {compute} compute-bound; {covered})"
