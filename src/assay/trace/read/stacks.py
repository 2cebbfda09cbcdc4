"""Call stacks with their times: every distinct path of nested spans, for tables and flame graphs."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import Struct

from assay.document.trace_labels import decode_path
from assay.trace.read.columns import Ints
from assay.trace.read.layers import TraceContents
from assay.trace.read.modules import MODEL
from assay.trace.read.nesting import Forest, added
from assay.trace.read.texts import plain


@dataclass
class Stacks:
    """Distinct paths of nested spans, parents before children."""

    frames: list[str]
    """The innermost frame of each path."""
    parent: list[int]
    """The parent of each path; -1 at the top."""
    calls: list[int]
    total_ns: list[int]
    own_ns: list[int]
    gpu_ns: list[int] | None
    """Accelerator time of what the innermost frame itself launched."""

    def path(self, index: int) -> list[str]:
        """The frames of a path, outermost first."""
        path = []
        while index >= 0:
            path.append(self.frames[index])
            index = self.parent[index]
        return path[::-1]


def stacks_of(parts: TraceContents) -> Stacks:
    """All paths of nested host spans, summed over calls and threads."""
    forest = parts.forest
    path, parents, names = _paths(forest)
    count = len(names)
    gpu = None
    if parts.activity is not None:
        attributed = parts.activity.source >= 0
        gpu = added(path[parts.activity.source[attributed]], parts.activity.duration[attributed], count).tolist()
    frames = [shown_name(name) for name in parts.columns.names]
    return Stacks(
        frames=[frames[name] for name in names.tolist()],
        parent=parents.tolist(),
        calls=np.bincount(path, minlength=count).tolist() if count else [],
        total_ns=added(path, forest.duration, count).tolist() if count else [],
        own_ns=added(path, forest.own, count).tolist() if count else [],
        gpu_ns=gpu,
    )


def _paths(forest: Forest) -> tuple[Ints, Ints, Ints]:
    """The path of each span; the parent of each path; the innermost name of each path."""
    path = np.full(forest.size + 1, -1, dtype=np.int64)
    parents, names, count = [], [], 0
    depth = forest.depths()
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=-1)) + 2))
    width = int(forest.name.max(initial=0)) + 1
    for first, behind in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        level = by_depth[first:behind]
        keys = (path[forest.parent[level]] + 1) * width + forest.name[level]
        distinct, place = np.unique(keys, return_inverse=True)
        path[level] = place + count
        parents.append(distinct // width - 1)
        names.append(distinct % width)
        count += len(distinct)
    empty = np.zeros(0, dtype=np.int64)
    return path[:-1], np.concatenate([empty, *parents]), np.concatenate([empty, *names])


def shown_name(name: str) -> str:
    """The displayed name of a span: Assay's labels are decoded into module paths."""
    label = decode_path(name)
    return name if label is None else label or MODEL


def frames(raw: bytes) -> list[str]:
    """The frames of an op's recorded stack (a JSON list, or a text separated by semicolons), innermost first."""
    try:
        stack = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        stack = plain(raw, quoted=True)
    if isinstance(stack, list):
        return [str(frame) for frame in stack]
    return [frame.strip() for frame in str(stack).split(";") if frame.strip()]


class StackLine(Struct, frozen=True):
    """One path of nested spans, outermost first."""

    stack: list[str]
    calls: int
    self_ns: int
    total_ns: int
    gpu_ns: int | None = None


def stack_lines(stacks: Stacks, sort: str | None) -> list[StackLine]:
    """The paths sorted by `sort` (`total`, `calls` or `gpu`), by default by self time, largest first."""
    lines = [
        StackLine(
            stack=stacks.path(index),
            calls=stacks.calls[index],
            self_ns=stacks.own_ns[index],
            total_ns=stacks.total_ns[index],
            gpu_ns=stacks.gpu_ns[index] if stacks.gpu_ns is not None else None,
        )
        for index in range(len(stacks.frames))
    ]
    keys = {
        "total": lambda line: line.total_ns,
        "calls": lambda line: line.calls,
        "gpu": lambda line: line.gpu_ns or 0,
    }
    return sorted(lines, key=keys.get(sort or "", lambda line: line.self_ns), reverse=True)
