"""The roofline as a picture: the limits of a machine, and the rate that each timed kind of op reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from assay import units
from assay.analysis.achieved import COMPUTE, MEMORY, NEITHER, OVERHEAD, UNKNOWN, Achieved
from assay.analysis.devices import Device
from assay.messages import plural
from assay.views.canvas import Canvas, Scale
from assay.views.layout import Style, lay_out
from assay.views.tables import Column, Table, percent
from assay.views.text.facts import notes_table
from assay.views.text.figures import Show, bottleneck
from assay.views.text.report import Parts, Picture

_HEIGHT = 18
_MARGIN = 1.2
"""Powers of ten on the x axis beyond the ridge points."""
_LETTERED = 8
"""Points with a letter and a line in the legend; the others are dots."""
_SLOPE = 4
"""Cells that the slope takes in one row."""
_SMALL = 0.001
"""Kinds of op with a smaller share of the time are not drawn."""
_COLORS = {COMPUTE: "green", MEMORY: "blue", OVERHEAD: "magenta", NEITHER: "red", UNKNOWN: "default"}
_BOUND = {
    COMPUTE: "is compute-bound",
    MEMORY: "is memory-bound",
    OVERHEAD: "is overhead per op",
    NEITHER: "is spent far below both limits",
    UNKNOWN: "has an unknown bottleneck",
}
_flops = partial(units.count, unit="FLOP/s")


class _Lettered(NamedTuple):
    letter: str
    row: Achieved


_LEGEND: tuple[Column[_Lettered], ...] = (
    Column("", lambda one: one.letter),
    Column("op", lambda one: one.row.name, show=units.op, shrinks=True, cuts="middle"),
    Column("inputs", lambda one: units.shapes(one.row.shapes), shrinks=True, drops=True, cuts="end"),
    Column("share of ops", lambda one: one.row.share, "right", percent),
    Column("of limit", lambda one: _of_limit(one.row), "right", units.ratio),
    Column("bottleneck", lambda one: one.row.bound, show=bottleneck, drops=True),
)


def roofline_parts(device: Device, rows: Sequence[Achieved] = ()) -> Parts:
    """The picture of the limits, with the rates of `rows`; nothing if limits or all rates are unknown."""
    peaks = {name: tera * 1e12 for name, tera in device.tflops.items() if tera}
    bandwidth = device.bandwidth
    points = [row for row in rows if _is_drawn(row)]
    if not peaks or not bandwidth or (rows and not points):
        return []
    caption = roofline_caption(rows) if rows else _ridge_caption(peaks, bandwidth)
    return [Picture(caption, lambda style: _draw(style, peaks, bandwidth, points, rows))]


def roofline_caption(rows: Sequence[Achieved]) -> str:
    """`85.0 % of the time is compute-bound; 3 kinds of op are far below both limits`."""
    shares = dict.fromkeys(_BOUND, 0.0)
    for row in rows:
        shares[row.bound] += row.share or 0.0
    bound = max(shares, key=shares.__getitem__)
    text = f"Roofline: {percent(shares[bound])} of the time in ops {_BOUND[bound]}"
    far = sum(row.bound == NEITHER for row in rows)
    if not far or bound == NEITHER:
        return text
    verb = "is" if far == 1 else "are"
    return f"{text}; {plural(far, 'kind of op', 'kinds of op')} {verb} far below both limits"


def _ridge_caption(peaks: Mapping[str, float], bandwidth: float) -> str:
    """`Roofline: below 5.03 FLOPs per byte, memory bandwidth limits fp32`."""
    name = "fp32" if "fp32" in peaks else max(peaks, key=peaks.__getitem__)
    return f"Roofline: below {units.ratio(peaks[name] / bandwidth)} FLOPs per byte, memory bandwidth limits {name}"


def _is_drawn(row: Achieved) -> bool:
    rate, intensity = row.flops_per_s, row.intensity
    known = bool(rate and intensity) and isfinite(rate or 0) and isfinite(intensity or 0)
    return known and (row.share or 0.0) >= _SMALL


def _of_limit(row: Achieved) -> float | None:
    """The achieved share of the highest rate that the op could reach."""
    if not row.flops or row.flops_per_s is None or row.roof_s is None:
        return None
    return row.flops_per_s * row.roof_s / row.flops


def _draw(
    style: Style, peaks: Mapping[str, float], bandwidth: float, points: Sequence[Achieved], rows: Sequence[Achieved]
) -> list[str]:
    canvas = _limits(style, peaks, bandwidth, [_position(row) for row in points])
    dot = "·" if style.utf8 else "."
    for row in points[_LETTERED:]:
        canvas.write(dot, *canvas.cell(*_position(row)), _COLORS[row.bound])
    letters: dict[tuple[int, int], str] = {}
    legend = []
    for row in points[:_LETTERED]:
        cell = canvas.cell(*_position(row))
        # Points in one cell share a letter.
        if cell not in letters:
            letters[cell] = chr(ord("a") + len(letters))
            canvas.write(letters[cell], *cell, _COLORS[row.bound])
        legend.append(_Lettered(letters[cell], row))
    tables = [Table(_LEGEND, legend, ruled=False), notes_table(_left_out(rows, points))]
    return [*canvas.lines(), *(line for table in tables if table.rows for line in lay_out(table, style).lines)]


def _limits(
    style: Style, peaks: Mapping[str, float], bandwidth: float, points: Sequence[tuple[float, float]]
) -> Canvas:
    """A canvas with the limits: a slope for the bandwidth and a roof for each peak, all on log axes."""
    slope = log10(bandwidth)
    roofs = {name: log10(peak) for name, peak in peaks.items()}
    xs = [*(x for x, _ in points), min(roofs.values()) - slope - _MARGIN, max(roofs.values()) - slope + _MARGIN]
    low, high = min(xs), max(xs)
    rates = [y for _, y in points]
    peak = max(roofs.values())
    bottom, top = min([*rates, slope + low]), max([*rates, peak])
    x_axis = Scale(low, high, _ticks(low, high, units.ratio), "FLOPs per byte")
    canvas = Canvas(style, _HEIGHT, x_axis, Scale(bottom, top + (top - bottom) / 20, _ticks(bottom, top, _flops)))
    canvas.line((low, slope + low), (peak - slope, peak), "/")
    for height in roofs.values():
        canvas.line((height - slope, height), (high, height), "-")
    _label_limits(canvas, roofs, slope, units.count(bandwidth, "B/s"))
    return canvas


def _label_limits(canvas: Canvas, roofs: Mapping[str, float], slope: float, bandwidth: str) -> None:
    """Write the limits left of the slope, where no op can be; roofs that share a row share a label."""
    shared: dict[int, list[str]] = {}
    for name, height in sorted(roofs.items(), key=lambda roof: roof[1]):
        shared.setdefault(canvas.cell(0, height)[1], []).append(name)
    for row, names in shared.items():
        column, _ = canvas.cell(roofs[names[0]] - slope, 0)
        values = ", ".join(f"{name} {_flops(10 ** roofs[name])}" for name in names)
        fits = len(values) <= column - _SLOPE
        canvas.write_before(values if fits else ", ".join(names), column - _SLOPE, row)
    heights = (max(roofs.values()) - step / 10 for step in range(50))
    places = (canvas.cell(height - slope, height) for height in heights)
    column, row = next((place for place in places if place[1] not in shared), (0, 0))
    canvas.write_before(bandwidth, column - _SLOPE, row)


def _ticks(low: float, high: float, show: Show) -> list[tuple[float, str]]:
    """Places and labels at powers of ten; also at 2 and 5 times them if the range is short."""
    steps = (1,) if high - low > 2 else (1, 2, 5)
    places = [power + log10(step) for power in range(floor(low), ceil(high) + 1) for step in steps]
    return [(place, show(10**place)) for place in places if low <= place <= high]


def _position(row: Achieved) -> tuple[float, float]:
    return log10(row.intensity or 1), log10(row.flops_per_s or 1)


def _left_out(rows: Sequence[Achieved], points: Sequence[Achieved]) -> Iterable[str]:
    """How many kinds of op are not in the picture, and their share of the time."""
    drawn = {row.kind for row in points}
    missing = [row for row in rows if row.kind not in drawn]
    if missing:
        share = percent(sum(row.share or 0.0 for row in missing))
        kinds = plural(len(missing), "kind of op", "kinds of op")
        yield f"not drawn: {kinds} without FLOPs or very short ({share} of the time in ops)"
