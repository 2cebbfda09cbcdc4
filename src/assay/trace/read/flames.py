"""Flame graph data: folded stacks for flame graph tools, or the same paths as a JSON tree."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.trace.read.stacks import Stacks

_IN_FRAME = str.maketrans({";": ",", "\n": " ", "\r": " "})


def folded(stacks: Stacks) -> bytes:
    """One line per path with self time: frames joined by semicolons, then the nanoseconds."""
    lines = (
        f"{';'.join(frame.translate(_IN_FRAME) for frame in stacks.path(index))} {own}\n"
        for index, own in enumerate(stacks.own_ns)
        if own > 0
    )
    return "".join(lines).encode("utf-8", "replace")


def icicle(stacks: Stacks, name: str) -> bytes:
    """The paths as one JSON tree: `value` is a frame's total time, `self` its self time, in nanoseconds."""
    root: dict[str, Any] = {"name": name, "value": 0, "self": 0, "children": []}
    nodes: list[dict[str, Any]] = []
    for index, frame in enumerate(stacks.frames):
        node: dict[str, Any] = {
            "name": frame,
            "value": stacks.total_ns[index],
            "self": stacks.own_ns[index],
            "calls": stacks.calls[index],
            "children": [],
        }
        if stacks.gpu_ns is not None:
            node["gpu_self"] = stacks.gpu_ns[index]
        nodes.append(node)
        above = stacks.parent[index]
        (nodes[above] if above >= 0 else root)["children"].append(node)
    root["value"] = sum(child["value"] for child in root["children"])
    return msgspec.json.encode(root)
