"""A canvas of text cells with axes, drawn by plotext, which is imported only when something is drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite
from typing import Any

from assay.views.cells import cell_len
from assay.views.layout import Style, shortened
from assay.views.plain import plain
from assay.views.tables import printable

MIN_WIDTH = 40
"""Narrower pictures are not readable."""
MAX_WIDTH = 120
DEFAULT_WIDTH = 80
"""The width of a picture in a text of unlimited width."""
_LONGEST = 16
"""The most cells of a label on an axis."""
_GAP = 2
"""Cells between two labels of the x axis."""
_BRAILLE = (2, 4)
"""Dots of a braille character across and up, of which lines are drawn."""
_NEEDLESS = re.compile(r"(\x1b\[38;5;\d+m[^\x1b]*\x1b\[0m)|\x1b\[0m")
"""A coloured text, which stays, or the end of a colour that never began."""
_ASCII = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|++++|||++")


@dataclass(frozen=True)
class Scale:
    """The range of an axis and its labelled places; of labels that overlap, the first is shown."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    name: str = ""


class Canvas:
    """A picture in the making; columns and rows count from the lower left cell inside the axes."""

    def __init__(self, style: Style, height: int, x: Scale, y: Scale) -> None:
        # A figure of its own: the functions of plotext itself share one, which may hold a picture of the caller.
        from plotext._figure import _figure_class

        self._style, self._x, self._y = style, x, y
        labels = [self._tick(text) for _, text in y.ticks]
        width = min(style.width or DEFAULT_WIDTH, MAX_WIDTH)
        self.columns = width - 1 - max(map(len, labels), default=0)
        self.rows = height - 2 - bool(x.name)
        self._figure: Any = _figure_class()
        self._figure._limit_size(False, False)
        self._figure.plot_size(width, height)
        self._figure.theme("clear")
        self._figure.xaxes(True, False)
        self._figure.yaxes(True, False)
        self._figure.xlim(x.low, x.high)
        self._figure.ylim(y.low, y.high)
        self._figure.yticks([value for value, _ in y.ticks], labels)
        shown = sorted(self._without_overlap(x.ticks))
        self._figure.xticks([value for value, _ in shown], [text for _, text in shown])
        # plotext puts the labels into a set, so that each run would place them in another order.
        monitor = self._figure.monitor
        monitor.xticks[0], monitor.xlabels[0] = [value for value, _ in shown], [text for _, text in shown]
        if x.name:
            self._figure.xlabel(x.name)
        # Without data, plotext draws no labels.
        self._figure.scatter([x.low], [y.low], marker=" ")

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """The column and the row of a point, as of the points of a line."""
        across, up = _BRAILLE if self._style.utf8 else (1, 1)
        return _place(x, self._x, self.columns, across), _place(y, self._y, self.rows, up)

    def area(self, heights: Sequence[float]) -> None:
        """Fill the space below `heights`, which are evenly spaced over the x axis; what is not finite is left out."""
        step = (self._x.high - self._x.low) / max(len(heights) - 1, 1)
        top = self._y.high
        points = [
            (self._x.low + at * step, min(one, top)) for at, one in enumerate(heights) if isfinite(one) and one > 0
        ]
        if points:
            self._figure.scatter(*zip(*points, strict=True), marker=self._marker("hd", "#"), fillx=True, color="cyan")

    def line(self, start: tuple[float, float], end: tuple[float, float], ascii_marker: str) -> None:
        """Draw a straight line between two points; in ASCII, of `ascii_marker`."""
        xs, ys = zip(start, end, strict=True)
        self._figure.plot(xs, ys, marker=self._marker("braille", ascii_marker), color="default")

    def divide(self, column: int) -> None:
        """Draw a vertical line through the whole picture."""
        for row in range(self.rows):
            self.write("│", column, row)

    def write(self, text: str, column: int, row: int, color: str = "default") -> None:
        """Write `text` from a cell on, over what is drawn there; shifted to the left if it is too long."""
        text = self._label(text)
        column = max(min(column, self.columns - len(text)), 0)
        x, y = _value(column, self._x, self.columns), _value(row, self._y, self.rows)
        self._figure.text(text[: self.columns], x, y, color=color, alignment="left")

    def write_before(self, text: str, column: int, row: int) -> None:
        """Write `text` so that it ends before a cell, or from the left if it is too long."""
        self.write(text, column - len(self._label(text)), row)

    def lines(self) -> list[str]:
        """The picture, top line first."""
        from plotext import uncolorize

        text = self._figure.build()
        if not self._style.utf8:
            text = text.translate(_ASCII)
        text = _NEEDLESS.sub(lambda match: match[1] or "", text) if self._style.color else uncolorize(text)
        return [line.rstrip() for line in text.splitlines()]

    def _marker(self, unicode: str, ascii: str) -> str:
        return unicode if self._style.utf8 else ascii

    def _label(self, text: str) -> str:
        """The text in characters of one cell each: plotext counts characters."""
        text = self._style.characters(printable(text))
        return text if cell_len(text) == len(text) else plain(text)

    def _tick(self, text: str) -> str:
        return self._label(shortened(text, _LONGEST, "middle"))

    def _without_overlap(self, ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        """The labels that fit beside those before them."""
        taken: set[int] = set()
        shown = []
        for value, text in ticks:
            label = self._tick(text)
            start = _place(value, self._x, self.columns) - len(label) // 2
            needed = set(range(start - _GAP, start + len(label) + _GAP))
            if not needed & taken:
                taken |= set(range(start, start + len(label)))
                shown.append((value, label))
        return shown


def _place(value: float, axis: Scale, cells: int, dots: int = 1) -> int:
    """The cell of a value, rounded as plotext does: to the nearest of the `dots` of a cell."""
    return floor(round(0.5 + (cells * dots - 1) * (value - axis.low) / (axis.high - axis.low), 8)) // dots


def _value(cell: int, axis: Scale, cells: int) -> float:
    """The value in the middle of a cell."""
    return axis.low + (axis.high - axis.low) * cell / max(cells - 1, 1)


def sampled(values: Sequence[float], count: int) -> list[float]:
    """`count` values, evenly spaced: the largest of each interval, so that peaks are kept."""
    size = len(values)
    edges = [(size * at // count, size * (at + 1) // count) for at in range(count)] if size else []
    return [max(values[start : max(end, start + 1)]) for start, end in edges]
