"""The table of laws: one row a quantity, its value at each point that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay import units
from assay.analysis.laws.law import Laws
from assay.analysis.laws.samples import QUANTITIES
from assay.views.tables import Column, Table


def law_table(laws: Laws, points: Sequence[Mapping[str, int]] = ()) -> Table:
    """Each quantity with its law, where that holds (or why there is none), and its value at `points`."""
    values = [laws.at(**point) for point in points]

    def holds(name: str) -> str:
        law = laws[name]
        return laws.refused[name] if law is None else law.condition or "at all sizes tried"

    columns: tuple[Column[str], ...] = (
        Column("quantity", lambda name: QUANTITIES[name].title),
        Column("law", lambda name: None if laws[name] is None else str(laws[name]), shrinks=True),
        *(
            Column(point_text(point), at.__getitem__, "right", units.exact)
            for point, at in zip(points, values, strict=True)
        ),
        Column("holds", holds, shrinks=True),
    )
    return Table(columns, list(laws))


def point_text(point: Mapping[str, int]) -> str:
    """A point in words: `batch=8, seq=4096`."""
    return ", ".join(f"{name}={size}" for name, size in point.items())
