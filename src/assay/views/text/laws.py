"""The table of scaling formulas: one row per quantity, with its value at each requested point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay import units
from assay.analysis.laws.law import Laws
from assay.analysis.laws.samples import QUANTITIES
from assay.views.tables import Column, Table


def law_table(laws: Laws, points: Sequence[Mapping[str, int]] = ()) -> Table:
    """Each quantity with its formula, its values at `points`, and its validity or why there is no formula."""
    values = [laws.at(**point) for point in points]

    def validity(name: str) -> str:
        law = laws[name]
        return laws.refused[name] if law is None else law.condition or "all tested sizes"

    columns: tuple[Column[str], ...] = (
        Column("quantity", lambda name: QUANTITIES[name].title),
        Column("formula", lambda name: None if laws[name] is None else str(laws[name]), shrinks=True, name="law"),
        *(
            Column(point_text(point), at.__getitem__, "right", units.exact)
            for point, at in zip(points, values, strict=True)
        ),
        Column("valid for", validity, shrinks=True, name="holds"),
    )
    return Table(columns, list(laws))


def point_text(point: Mapping[str, int]) -> str:
    """A point as text: `batch=8, seq=4096`."""
    return ", ".join(f"{name}={size}" for name, size in point.items())
