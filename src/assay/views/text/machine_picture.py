"""The roofline of a machine drawn with text characters: FLOP/s over FLOPs per byte, both on a log2 scale."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log2

from assay import units

WIDTH, HEIGHT = 56, 12
_MARGIN = 4
"""Powers of two on the x axis below the lowest ridge point and above the highest one."""


def picture(peaks: Mapping[str, float], bandwidth: float, *, utf8: bool = True) -> list[tuple[str, str]]:
    """The lines of the drawing, each with its label on the y axis; `peaks` are the roofs, `bandwidth` the slope."""
    slope, roof = ("╱", "─") if utf8 else ("/", "-")
    ridges = [log2(peak / bandwidth) for peak in peaks.values()]
    low, high = floor(min(ridges)) - _MARGIN, ceil(max(ridges)) + _MARGIN
    xs = [low + (high - low) * column / (WIDTH - 1) for column in range(WIDTH)]
    top = log2(max(peaks.values()))
    bottom = min(log2(bandwidth) + low, log2(min(peaks.values())))
    cells = [[" "] * WIDTH for _ in range(HEIGHT)]

    def row(value: float) -> int:
        return round((top - value) / (top - bottom) * (HEIGHT - 1)) if top > bottom else 0

    for column, x in enumerate(xs):
        height = log2(bandwidth) + x
        if height <= top:
            cells[row(height)][column] = slope
    for peak in peaks.values():
        for column, x in enumerate(xs):
            if log2(bandwidth) + x > log2(peak):
                cells[row(log2(peak))][column] = roof
    for at in range(HEIGHT):
        names = " ".join(name for name, peak in peaks.items() if row(log2(peak)) == at)
        if names:
            cells[at][-len(names) - 1 :] = f" {names}"
    labels = [units.count(2 ** (top - (top - bottom) * line / (HEIGHT - 1)), "FLOP/s") for line in range(HEIGHT)]
    shown = [label if line % 3 == 0 or line == HEIGHT - 1 else "" for line, label in enumerate(labels)]
    lines = ["".join(line).rstrip() for line in cells]
    return [*zip(shown, lines, strict=True), ("FLOP/byte", _axis(low, high))]


def _axis(low: int, high: int) -> str:
    """The labels of the x axis, about six of them, at powers of two."""
    line = [" "] * (WIDTH + 8)
    step = max(1, round((high - low) / 6))
    for power in range(low, high + 1, step):
        at = round((power - low) / (high - low) * (WIDTH - 1))
        text = f"{2**power:g}" if power >= 0 else f"1/{2**-power:g}"
        line[at : at + len(text)] = text
    return "".join(line).rstrip()
