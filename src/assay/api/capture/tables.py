"""Captured passes as the lines of a table of layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.errors import ReadError
from assay.views.text.layer_table import LayerLine

if TYPE_CHECKING:
    from assay.trace.write.plan import CapturedPass

CPU = "CPU"
ITSELF = "(model)"
"""The model's own row, as the reader of traces calls it."""
OUTSIDE = "(outside any layer)"


def lines_of(captured: CapturedPass) -> list[LayerLine]:
    """A line for each layer of the pass with its own time; they sum to the time of the pass."""
    lines = [LayerLine(layer.path or ITSELF, layer.calls, layer.own_ns, layer.shapes) for layer in captured.layers]
    if captured.facts.covers == "block":
        outside_ns = captured.took_ns - sum(layer.own_ns for layer in captured.layers)
        lines.append(LayerLine(OUTSIDE, None, max(0, outside_ns), ()))
    return lines


def accelerator_lines(captured: CapturedPass) -> list[LayerLine]:
    """A line for each layer with its own time on the accelerator, as the trace tells; none where it has none.

    What the trace cannot give to a layer is a line too: the lines add up to all the time on the device.
    """
    from assay.trace.read.reading import read_trace

    if captured.facts.device == "cpu" or captured.path is None:
        return []
    try:
        trace = read_trace(captured.path)
    except ReadError:
        return []
    if trace.gpu_ns is None:
        return []
    shapes = {layer.path or ITSELF: layer.shapes for layer in captured.layers}

    def lines() -> Iterator[LayerLine]:
        for row in trace.layers:
            yield LayerLine(row.name, row.calls, row.gpu_self_ns or 0, shapes.get(row.name, ()))
        for outside in trace.outside:
            if outside.gpu_ns:
                yield LayerLine(f"({outside.what})", None, outside.gpu_ns, ())
        for left in trace.unattributed:
            yield LayerLine(f"({left.why})", None, left.gpu_ns, ())

    return list(lines())
