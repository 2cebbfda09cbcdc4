"""The table of laws: one row a quantity, its value at each point that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay import units
from assay.analysis.laws.law import Laws
from assay.analysis.laws.samples import QUANTITIES
from assay.views.tables import Column, Table


def law_table(laws: Laws, points: Sequence[Mapping[str, int]] = ()) -> Table:
    """Each quantity with its law, where that holds (or why there is none), and what it gives at `points`."""
    columns = (
        Column("quantity"),
        Column("law", shrinks=True),
        *(Column(point_text(point), "right", units.exact) for point in points),
        Column("holds", shrinks=True),
    )
    values = [laws.at(**point) for point in points]
    return Table(columns, [_row(laws, name, [each[name] for each in values]) for name in laws])


def point_text(point: Mapping[str, int]) -> str:
    """A point in words: `batch=8, seq=4096`."""
    return ", ".join(f"{name}={size}" for name, size in point.items())


def _row(laws: Laws, name: str, values: list[int | None]) -> list[Any]:
    law = laws[name]
    holds = laws.refused[name] if law is None else law.condition or "at all sizes tried"
    return [QUANTITIES[name].title, None if law is None else str(law), *values, holds]
