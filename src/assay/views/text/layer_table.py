"""The table of layers of captured passes: Layer, Calls, Total Time (ms), Avg Time (ms), Shapes, and TOTAL.

A layer's time is without the layers inside it, so that the column adds up to the pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay import units
from assay.views.tables import Column, Table, as_text

Shapes = tuple[tuple[tuple[int, ...], ...], ...]

MOST_LINES = 24
"""A table of more layers shows the slowest; the others are one line."""
_MOST_SHAPES = 2
_HOT, _WARM = 0.5, 0.2
"""Shares of the slowest layer's time from which a line is red, and yellow."""
_RED, _YELLOW, _DIM, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True)
class LayerLine:
    """One layer: its name, calls, own time and the distinct shapes of its inputs."""

    name: str
    calls: int | None
    time_ns: int
    shapes: Shapes

    def plus(self, other: LayerLine | None) -> LayerLine:
        """This line and `other` as one."""
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
        """Own time per call."""
        return self.time_ns / self.calls if self.calls else None


_COLUMNS: tuple[Column[LayerLine], ...] = (
    Column("Layer", lambda line: line.name, shrinks=True, cuts=True, keeps=8),
    Column("Calls", lambda line: line.calls, "right", units.exact),
    Column("Total Time (ms)", lambda line: line.time_ns, "right", lambda value: _milliseconds(value)),
    Column("Avg Time (ms)", lambda line: line.average_ns, "right", lambda value: _milliseconds(value)),
    Column("Shapes", lambda line: _shapes(line.shapes), shrinks=True, cuts=True, drops=True),
)


def layer_table(lines: Sequence[LayerLine], most: int | None = None) -> Table:
    """The table of `lines`; where there are more than `most`, the slowest of them, and one line for the others."""
    return Table(_COLUMNS, _slowest(lines, most), [_sum("TOTAL", lines)])


def layer_text(lines: Sequence[LayerLine], *, width: int | None = None, color: bool = False) -> str:
    """The table for a terminal, hot lines in red, warm ones in yellow."""
    table = layer_table(lines, MOST_LINES)
    text = as_text(table, width=width, color=color)
    if not color:
        return text
    drawn = text.splitlines()
    slowest_ns = max((line.time_ns for line in lines), default=0) or 1
    for position, row in enumerate(table.rows, start=2):
        share = row.time_ns / slowest_ns
        tint = _RED if share >= _HOT else _YELLOW if share >= _WARM else _DIM
        drawn[position] = f"{tint}{drawn[position]}{_PLAIN}"
    return "".join(f"{line}\n" for line in drawn)


def _slowest(lines: Sequence[LayerLine], most: int | None) -> list[LayerLine]:
    if most is None or len(lines) <= most:
        return list(lines)
    ranked = sorted(lines, key=lambda line: -line.time_ns)
    rest = ranked[most - 1 :]
    return [*ranked[: most - 1], _sum(f"({len(rest)} others)", rest)]


def _sum(name: str, lines: Sequence[LayerLine]) -> LayerLine:
    return LayerLine(name, sum(line.calls or 0 for line in lines), sum(line.time_ns for line in lines), ())


def _shapes(shapes: Shapes) -> str:
    """`(32, 100)`; several inputs joined by commas, several calls by bars."""
    told = [", ".join(str(shape) for shape in inputs) for inputs in shapes[:_MOST_SHAPES]]
    return " | ".join([*told, "…"] if len(shapes) > _MOST_SHAPES else told)


def _milliseconds(value_ns: float | None) -> str:
    return units.UNKNOWN if value_ns is None else f"{value_ns / 1e6:.3f}"
