"""The table of a roofline: what each kind of operation takes at least, and what bounds it."""

from __future__ import annotations

from assay import units
from assay.analysis.roofline import COMPUTE, KindBound, Roofline
from assay.views.tables import Column, Table
from assay.views.text.report import Report

_COLUMNS = (
    Column("op", shrinks=True),
    Column("inputs", shrinks=True, drops=True),
    Column("count", "right", units.exact),
    Column("precision", drops=True),
    Column("FLOPs", "right", units.count, drops=True),
    Column("bytes", "right", units.size, drops=True),
    Column("bound each s", "right", units.seconds, drops=True),
    Column("bound s", "right", units.seconds),
    Column("share", "right", lambda share: units.share(share, 1)),
    Column("bound by"),
)


def table(roofline: Roofline) -> Table:
    """One row a kind, the longest bound first; FLOPs and bytes are those of one execution."""
    rows = sorted(roofline.kinds, key=lambda kind: (-(kind.total_s or 0), kind.kind))
    return Table(_COLUMNS, [_row(kind, roofline) for kind in rows])


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


def _row(kind: KindBound, roofline: Roofline) -> list[object]:
    total = kind.total_s
    share = total / roofline.bound_s if total is not None and roofline.bound_s else None
    shapes = ", ".join(units.shape(shape) for shape in kind.shapes)
    return [
        kind.name,
        shapes,
        kind.count,
        kind.precision,
        kind.flops,
        kind.bytes,
        kind.seconds,
        total,
        share,
        kind.by,
    ]
