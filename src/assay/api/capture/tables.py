"""The rows of the layer table of a captured pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.errors import ReadError
from assay.views.text.layer_table import LayerLine

if TYPE_CHECKING:
    from assay.trace.write.plan import CapturedPass

CPU = "CPU"
ITSELF = "(model)"
"""The name of the model's own row, as in `assay.read_trace`."""
OUTSIDE = "(outside any layer)"


def layer_lines(captured: CapturedPass) -> list[LayerLine]:
    """One row per layer with its self time on the CPU; the times add up to the time of the pass."""
    lines = [LayerLine(layer.path or ITSELF, layer.calls, layer.own_ns, layer.shapes) for layer in captured.layers]
    if captured.facts.covers == "block":
        outside_ns = captured.took_ns - sum(layer.own_ns for layer in captured.layers)
        lines.append(LayerLine(OUTSIDE, None, max(0, outside_ns), ()))
    return lines


def accelerator_lines(captured: CapturedPass) -> list[LayerLine]:
    """One row per layer with its self time on the accelerator, from the trace; empty if the trace has none.

    Time that cannot be attributed to a layer gets rows of its own, so the rows add up to all time on the device.
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
        for unattributed in trace.unattributed:
            yield LayerLine(f"({unattributed.why})", None, unattributed.gpu_ns, ())

    return list(lines())
