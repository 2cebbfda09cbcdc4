"""The table of a roofline: what each kind of operation takes at least, and what bounds it."""

from __future__ import annotations

from assay import units
from assay.analysis.roofline import COMPUTE, KindBound, Roofline
from assay.views.tables import Column, Table
from assay.views.text.amounts import part_of, percent
from assay.views.text.report import Report


def table(roofline: Roofline) -> Table:
    """One row per kind, the longest bound first; FLOPs and bytes are those of one execution."""
    columns: tuple[Column[KindBound], ...] = (
        Column("op", lambda kind: kind.name, shrinks=True),
        Column("inputs", lambda kind: units.shapes(kind.shapes), shrinks=True, drops=True),
        Column("count", lambda kind: kind.count, "right", units.exact),
        Column("precision", lambda kind: kind.precision, drops=True),
        Column("FLOPs", lambda kind: kind.flops, "right", units.count, drops=True),
        Column("bytes", lambda kind: kind.bytes, "right", units.size, drops=True),
        Column("bound each s", lambda kind: kind.seconds, "right", units.seconds, drops=True),
        Column("bound s", lambda kind: kind.total_s, "right", units.seconds),
        Column("share", lambda kind: part_of(kind.total_s, roofline.bound_s), "right", percent),
        Column("bound by", lambda kind: kind.by),
    )
    return Table(columns, sorted(roofline.kinds, key=lambda kind: (-(kind.total_s or 0), kind.kind)))


def report(roofline: Roofline) -> Report:
    """The bound of the pass and the table behind it."""
    kinds = table(roofline)
    return Report([headline(roofline), kinds], kinds)


def headline(roofline: Roofline) -> str:
    """The bound of the pass in one line, with what it covers."""
    covered = roofline.coverage
    compute = units.share(roofline.by.get(COMPUTE), roofline.bound_s)
    left_out = f"; left out: {', '.join(covered.unknown)}" if covered.unknown else ""
    counted = f"{units.exact(covered.known)} of {units.exact(covered.total)} operations{left_out}"
    return (
        f"At least {units.seconds(roofline.bound_s)} on {roofline.device} "
        f"(modelled, a bound: {compute} compute-bound; {counted})"
    )
