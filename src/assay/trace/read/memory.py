"""What allocators held over time, and which layers took and gave back."""

from __future__ import annotations

import numpy as np

from assay.document.trace import MemoryTimeline
from assay.trace.read.columns import Columns, Ints, SmallInts
from assay.trace.read.modules import Modules
from assay.trace.read.nesting import Forest, added, looked_up

POINTS = 256
"""The most points a timeline keeps; each has the most that was held until the next."""
_TYPES = {0: "CPU", 1: "CUDA", 20: "HIP"}


def memory_layers(columns: Columns, forest: Forest, modules: Modules) -> SmallInts:
    """For each allocation the layer that made it; -1 outside any."""
    places = forest.at(columns["memory_track"], columns["memory_time"])
    return looked_up(modules.layer, looked_up(modules.owner, places, -1), -1)


def layer_bytes(columns: Columns, layers: SmallInts, count: int) -> tuple[list[int], list[int]]:
    """Bytes allocated and bytes freed, for each layer."""
    size, inside = columns["memory_bytes"], layers >= 0
    taken, freed = inside & (size > 0), inside & (size < 0)
    return added(layers[taken], size[taken], count).tolist(), added(layers[freed], -size[freed], count).tolist()


def timelines(columns: Columns, layers: SmallInts, names: list[str], begin: int) -> list[MemoryTimeline]:
    """A row for each device whose allocator was recorded."""
    key = columns["memory_device_type"].astype(np.int64) * 4096 + columns["memory_device"] + 1
    return [
        _timeline(columns, np.flatnonzero(key == device), layers, names, begin) for device in np.unique(key).tolist()
    ]


def _timeline(columns: Columns, chosen: Ints, layers: SmallInts, names: list[str], begin: int) -> MemoryTimeline:
    chosen = chosen[np.argsort(columns["memory_time"][chosen], kind="stable")]
    time, size = columns["memory_time"][chosen] - begin, columns["memory_bytes"][chosen]
    said = columns["memory_total"][chosen]
    # Without the allocator's own total, what the trace saw is counted from nothing.
    held = said if (said >= 0).all() else np.cumsum(size)
    top = int(held.argmax())
    layer = int(layers[chosen[top]])
    step = -(-len(chosen) // POINTS)
    firsts = np.arange(0, len(chosen), step)
    points = zip(time[firsts].tolist(), np.maximum.reduceat(held, firsts).tolist(), strict=True)
    return MemoryTimeline(
        device=_device(int(columns["memory_device_type"][chosen[0]]), int(columns["memory_device"][chosen[0]])),
        peak_bytes=int(held[top]),
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
