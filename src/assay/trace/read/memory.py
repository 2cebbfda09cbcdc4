"""Allocated memory over time, and the bytes each layer allocated and freed."""

from __future__ import annotations

import numpy as np

from assay.document.trace import MemoryTimeline
from assay.trace.read.columns import Columns, Ints, SmallInts
from assay.trace.read.modules import Modules
from assay.trace.read.nesting import Forest, added, looked_up

POINTS = 256
"""The maximum number of points in a timeline; each has the peak up to the next point."""
_TYPES = {0: "CPU", 1: "CUDA", 20: "HIP"}


def memory_layers(columns: Columns, forest: Forest, modules: Modules) -> SmallInts:
    """The layer that made each allocation; -1 outside all layers."""
    places = forest.at(columns["memory_track"], columns["memory_time"])
    return looked_up(modules.layer, looked_up(modules.owner, places, -1), -1)


def layer_bytes(columns: Columns, layers: SmallInts, count: int) -> tuple[list[int], list[int]]:
    """Bytes allocated and bytes freed per layer."""
    size, inside = columns["memory_bytes"], layers >= 0
    allocated, freed = inside & (size > 0), inside & (size < 0)
    return added(layers[allocated], size[allocated], count).tolist(), added(
        layers[freed], -size[freed], count
    ).tolist()


def timelines(columns: Columns, layers: SmallInts, names: list[str], begin: int) -> list[MemoryTimeline]:
    """One timeline per device whose allocator was recorded; times are relative to `begin`."""
    key = columns["memory_device_type"].astype(np.int64) * 4096 + columns["memory_device"] + 1
    return [
        _timeline(columns, np.flatnonzero(key == device), layers, names, begin) for device in np.unique(key).tolist()
    ]


def _timeline(columns: Columns, chosen: Ints, layers: SmallInts, names: list[str], begin: int) -> MemoryTimeline:
    chosen = chosen[np.argsort(columns["memory_time"][chosen], kind="stable")]
    time, size = columns["memory_time"][chosen] - begin, columns["memory_bytes"][chosen]
    totals = columns["memory_total"][chosen]
    # Without the allocator's own totals, allocations in the trace are summed from zero.
    live = totals if (totals >= 0).all() else np.cumsum(size)
    top = int(live.argmax())
    layer = int(layers[chosen[top]])
    step = -(-len(chosen) // POINTS)
    firsts = np.arange(0, len(chosen), step)
    points = zip(time[firsts].tolist(), np.maximum.reduceat(live, firsts).tolist(), strict=True)
    return MemoryTimeline(
        device=_device(int(columns["memory_device_type"][chosen[0]]), int(columns["memory_device"][chosen[0]])),
        peak_bytes=int(live[top]),
        peak_at_ns=int(time[top]),
        peak_layer=names[layer] if layer >= 0 else None,
        allocated_bytes=int(size[size > 0].sum()),
        freed_bytes=int(-size[size < 0].sum()),
        events=len(chosen),
        timeline=tuple(points),
    )


def _device(kind: int, index: int) -> str:
    name = _TYPES.get(kind, f"device type {kind}")
    return f"{name} {index}" if index >= 0 else name
