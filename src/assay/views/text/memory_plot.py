"""Memory over the ops of a pass as a picture, with its peak, phases and modules."""

from __future__ import annotations

from collections.abc import Sequence

from assay import units
from assay.analysis.memory.lifetimes import PassStorages
from assay.analysis.memory.stages import Stage, module_stages, phases
from assay.analysis.memory.totals import Occupancy
from assay.views.canvas import Canvas, Scale, sampled
from assay.views.layout import Style
from assay.views.text.report import Picture

_HEIGHT = 14
_PEAK = "peak"
_DIVIDED = 2
"""Values per column: plotext divides a cell into two halves."""


def timeline(caption: str, usage: Occupancy, recorded_pass: PassStorages) -> Picture:
    """The bytes of live tensors during each op, without parameters, buffers and inputs."""
    return Picture(caption, lambda style: _draw(style, usage, recorded_pass))


def _draw(style: Style, usage: Occupancy, recorded_pass: PassStorages) -> list[str]:
    ops, peak = len(usage.alive), usage.peak.bytes
    several = phases(recorded_pass)
    rows, header = _HEIGHT - 3, 2 if len(several) > 1 else 1
    # The peak ends just below the rows that hold labels.
    high = peak * (2 * rows - 1) / (2 * (rows - header) - 1) or 1.0
    heights = dict.fromkeys((0, peak // 2, peak))
    x_axis = Scale(-0.5, ops - 0.5, _ticks(module_stages(recorded_pass), ops), f"ops 1 to {units.exact(ops)}")
    canvas = Canvas(style, _HEIGHT, x_axis, Scale(0, high, [(value, units.size(value)) for value in heights]))
    canvas.area(sampled(usage.alive, _DIVIDED * canvas.columns))
    for phase in several if len(several) > 1 else ():
        _mark_phase(canvas, phase)
    _mark_peak(canvas, usage.peak.op, rows - header, "▼" if style.utf8 else "v")
    return canvas.lines()


def _mark_peak(canvas: Canvas, op: int, row: int, mark: str) -> None:
    """An arrow to the peak, named on the side where there is space."""
    column, _ = canvas.cell(op, 0)
    fits = column + len(_PEAK) + 2 <= canvas.columns
    canvas.write(_PEAK, column + 2 if fits else column - 1 - len(_PEAK), row)
    canvas.write(mark, column, row, "red")


def _mark_phase(canvas: Canvas, phase: Stage) -> None:
    column, _ = canvas.cell(phase.first - 0.5, 0)
    if phase.first:
        canvas.divide(column)
    canvas.write(phase.name, column + 2 * bool(phase.first), canvas.rows - 1)


def _ticks(modules: Sequence[Stage], ops: int) -> list[tuple[float, str]]:
    """The middles of the modules, the longest first; without modules, numbers of ops."""
    if not modules:
        return [(op, units.exact(op + 1)) for op in dict.fromkeys((0, ops - 1, ops // 2))]
    longest = sorted(modules, key=lambda one: one.first - one.last)
    return [((one.first + one.last) / 2, one.name) for one in longest]
