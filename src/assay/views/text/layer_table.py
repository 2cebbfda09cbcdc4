"""The table of layers of captured passes: layer, calls, self time, average time, input shapes, and a total.

All times are self times, without the layers inside a layer, so that they add up to the pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay import units
from assay.views.layout import DEFAULT, Style, as_text
from assay.views.tables import Column, Table

Shapes = tuple[tuple[tuple[int, ...], ...], ...]

MAX_LINES = 24
"""A table with more layers shows the slowest ones and sums the rest in one line."""
_MAX_SHAPES = 2
_HOT, _WARM = 0.5, 0.2
"""A row is red or yellow if its time is at least this share of the slowest layer's time."""
_RED, _YELLOW, _DIM = "31", "33", "2"


@dataclass(frozen=True)
class LayerLine:
    """One layer: its name, calls, self time and the distinct shapes of its inputs."""

    name: str
    calls: int | None
    time_ns: int
    shapes: Shapes

    def plus(self, other: LayerLine | None) -> LayerLine:
        """The sum of this line and `other`, under this line's name."""
        if other is None:
            return self
        return LayerLine(
            self.name,
            None if self.calls is None or other.calls is None else self.calls + other.calls,
            self.time_ns + other.time_ns,
            tuple(dict.fromkeys((*other.shapes, *self.shapes))),
        )

    @property
    def average_ns(self) -> float | None:
        """Self time per call; None if the number of calls is unknown or zero."""
        return self.time_ns / self.calls if self.calls else None


_COLUMNS: tuple[Column[LayerLine], ...] = (
    Column("Layer", lambda line: line.name, shrinks=True, cuts="middle", keeps=8),
    Column("Calls", lambda line: line.calls, "right", units.exact),
    Column("Self time (ms)", lambda line: line.time_ns, "right", lambda value: _milliseconds(value)),
    Column("Avg time (ms)", lambda line: line.average_ns, "right", lambda value: _milliseconds(value)),
    Column("Shapes", lambda line: _shapes(line.shapes), shrinks=True, cuts="end", drops=True),
)


def layer_table(lines: Sequence[LayerLine], limit: int | None = None) -> Table:
    """The table of `lines`; if there are more than `limit`, the slowest ones and one line that sums the rest."""
    return Table(_COLUMNS, _slowest(lines, limit), [_sum("TOTAL", lines)])


def layer_text(lines: Sequence[LayerLine], style: Style = DEFAULT) -> str:
    """The table as text; in colour, the slowest layers are red, slow ones yellow, the rest dim."""
    table = layer_table(lines, MAX_LINES)
    slowest_ns = max((line.time_ns for line in lines), default=0) or 1
    tints = {id(row): _tint(row.time_ns / slowest_ns) for row in table.rows}
    columns = [replace(column, paint=lambda row: tints.get(id(row), "")) for column in table.columns]
    return as_text(replace(table, columns=columns), style)


def _tint(share: float) -> str:
    return _RED if share >= _HOT else _YELLOW if share >= _WARM else _DIM


def _slowest(lines: Sequence[LayerLine], limit: int | None) -> list[LayerLine]:
    if limit is None or len(lines) <= limit:
        return list(lines)
    ranked = sorted(lines, key=lambda line: -line.time_ns)
    rest = ranked[limit - 1 :]
    return [*ranked[: limit - 1], _sum(f"({len(rest)} more)", rest)]


def _sum(name: str, lines: Sequence[LayerLine]) -> LayerLine:
    return LayerLine(name, sum(line.calls or 0 for line in lines), sum(line.time_ns for line in lines), ())


def _shapes(shapes: Shapes) -> str:
    """`(32, 100)`; the inputs of a call are joined by commas, different calls by bars."""
    texts = [", ".join(str(shape) for shape in inputs) for inputs in shapes[:_MAX_SHAPES]]
    return " | ".join([*texts, "…"] if len(shapes) > _MAX_SHAPES else texts)


def _milliseconds(value_ns: float | None) -> str:
    return units.UNKNOWN if value_ns is None else f"{value_ns / 1e6:.3f}"
