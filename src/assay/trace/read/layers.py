"""Time, kernels, memory and operations of each layer, and of what lies outside all of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from assay.document.trace import LayerTimes, OutsideTimes, StepTimes, Unattributed
from assay.document.trace_labels import TraceFacts
from assay.trace.read.activity import BY_GRAPH, KINDS, NO_LAUNCH, Activity
from assay.trace.read.backward import Backward
from assay.trace.read.categories import Role
from assay.trace.read.columns import Columns, Flags, SmallInts
from assay.trace.read.memory import layer_bytes
from assay.trace.read.modules import MODEL, Modules
from assay.trace.read.nesting import Forest, added, looked_up
from assay.trace.read.shapes import layer_shapes
from assay.trace.read.spreads import NEVER, spreads

OF_LAYERS = "backward of layers"
OF_NO_LAYER = "backward of nothing in a layer"
OPTIMIZER = "optimizer"
OTHER = "other"
SILENT = "nothing recorded"


@dataclass
class TraceContents:
    """Everything that was found in one trace, from which rows are made."""

    columns: Columns
    forest: Forest
    modules: Modules
    backward: Backward
    activity: Activity | None
    memory_layers: SmallInts
    steps: list[StepTimes]
    facts: TraceFacts | None


def layer_rows(parts: TraceContents) -> list[LayerTimes]:
    """A row for each layer, in the order of their first calls."""
    modules, forest = parts.modules, parts.forest
    count = len(modules.names)
    durations = forest.duration[modules.places]
    inside, outermost = modules.owner >= 0, modules.outermost
    own = added(modules.layer[modules.owner[inside]], forest.own[inside], count).tolist()
    total = added(modules.layer[outermost], durations[outermost], count).tolist()
    calls = np.bincount(modules.layer, minlength=count).tolist()
    per_call = spreads(modules.layer, durations, count)
    backward = _backward_cpu(parts, count)
    gpu = _gpu(parts, count)
    memory = layer_bytes(parts.columns, parts.memory_layers, count) if len(parts.memory_layers) else None
    shapes = layer_shapes(parts.columns, forest, modules, parts.facts)
    ops = _operations(parts)
    classes = {module.path or MODEL: module.class_name for module in parts.facts.modules} if parts.facts else {}
    return [
        LayerTimes(
            name=name,
            calls=calls[i],
            cpu_total_ns=total[i],
            cpu_self_ns=own[i],
            per_call=per_call[i] or NEVER,
            gpu_total_ns=gpu.total[i] if gpu else None,
            gpu_self_ns=gpu.own[i] if gpu else None,
            communication_ns=gpu.communication[i] if gpu else None,
            kernels=gpu.kernels[i] if gpu else None,
            backward_cpu_ns=backward[i] if backward else None,
            backward_gpu_ns=gpu.backward[i] if gpu and backward else None,
            allocated_bytes=memory[0][i] if memory else None,
            freed_bytes=memory[1][i] if memory else None,
            shapes=shapes[i],
            ops=ops[i],
            class_name=classes.get(name, ""),
        )
        for i, name in enumerate(modules.names)
    ]


@dataclass
class _Gpu:
    own: list[int]
    communication: list[int]
    total: list[int]
    kernels: list[int]
    backward: list[int]


def _gpu(parts: TraceContents, count: int) -> _Gpu | None:
    """Accelerator time for each layer."""
    activity, modules = parts.activity, parts.modules
    if activity is None:
        return None
    calls = kernel_calls(parts)
    inside = calls >= 0
    per_call = added(calls[inside], activity.duration[inside], len(modules.places))
    with_submodules = modules.inclusive(per_call)
    outermost = modules.outermost
    layers = kernel_backward_layers(parts)
    behind = layers >= 0
    waiting = inside & (activity.kind == KINDS.index("communication"))
    return _Gpu(
        own=added(modules.layer, per_call, count).tolist(),
        communication=added(modules.layer[calls[waiting]], activity.duration[waiting], count).tolist(),
        total=added(modules.layer[outermost], with_submodules[outermost], count).tolist(),
        kernels=np.bincount(modules.layer[calls[inside]], minlength=count).tolist(),
        backward=added(layers[behind], activity.duration[behind], count).tolist(),
    )


def kernel_calls(parts: TraceContents) -> SmallInts:
    """For each kernel the module call that launched it; -1 where it is none."""
    assert parts.activity is not None
    return looked_up(parts.modules.owner, parts.activity.source, -1)


def kernel_backward_layers(parts: TraceContents) -> SmallInts:
    """For each kernel outside modules the layer whose backward launched it; -1 where it is none."""
    assert parts.activity is not None
    outside = kernel_calls(parts) < 0
    return np.where(outside, looked_up(parts.backward.layer, parts.activity.source, -1), -1)


def _backward_cpu(parts: TraceContents, count: int) -> list[int] | None:
    """Backward time of each layer; None where the trace holds no backward pass."""
    if not parts.backward.inside.any():
        return None
    chosen = (parts.modules.owner < 0) & (parts.backward.layer >= 0)
    found: list[int] = added(parts.backward.layer[chosen], parts.forest.own[chosen], count).tolist()
    return found


def _operations(parts: TraceContents) -> list[dict[str, int]]:
    """For each layer the operations it ran itself, the most frequent first."""
    columns, forest, modules = parts.columns, parts.forest, parts.modules
    found: list[dict[str, int]] = [{} for _ in modules.names]
    is_op = (columns.roles == Role.OP) & (modules.layer_of_name[:-1] < 0)
    places = np.flatnonzero(forest.flagged(is_op) & (modules.owner >= 0))
    if not len(places):
        return found
    keys = modules.layer[modules.owner[places]].astype(np.int64) * len(columns.names) + forest.name[places]
    pairs, counts = np.unique(keys, return_counts=True)
    for place in np.lexsort((pairs, -counts)).tolist():
        layer, name = divmod(int(pairs[place]), len(columns.names))
        found[layer][columns.names[name]] = int(counts[place])
    return found


def outside_rows(parts: TraceContents) -> list[OutsideTimes]:
    """What is outside any module's forward, by what it is; empty rows are left out."""
    forest = parts.forest
    chosen = _outside_kinds(parts.backward, parts.modules.owner < 0)
    cpu = {what: int(forest.own[flags].sum()) for what, flags in chosen.items()}
    cpu[SILENT] = sum(silent_ns(forest))
    gpu: dict[str, tuple[int, int]] = {}
    if parts.activity is not None:
        activity = parts.activity
        known = (activity.source >= 0) & (kernel_calls(parts) < 0)
        for what, flags in chosen.items():
            mine = known & looked_up(flags, activity.source, 0)
            gpu[what] = int(activity.duration[mine].sum()), int(mine.sum())
    rows = [
        OutsideTimes(what, cpu[what], *(gpu.get(what, (0, 0)) if parts.activity is not None else (None, None)))
        for what in cpu
    ]
    return [row for row in rows if row.cpu_ns or row.gpu_ns]


def _outside_kinds(backward: Backward, outside: Flags) -> dict[str, Flags]:
    """Which spans outside modules are what; each is one thing."""
    answered, optimizing = outside & (backward.layer >= 0), outside & backward.optimizing
    unanswered = outside & backward.inside & ~answered
    optimizing &= ~answered & ~unanswered
    return {
        OF_LAYERS: answered,
        OF_NO_LAYER: unanswered,
        OPTIMIZER: optimizing,
        OTHER: outside & ~answered & ~unanswered & ~optimizing,
    }


def silent_ns(forest: Forest) -> list[int]:
    """For each track the time between its first and last span that no span covers."""
    found = []
    for first, behind in itertools.pairwise(forest.track_starts.tolist()):
        roots = forest.parent[first:behind] < 0
        covered = int(forest.duration[first:behind][roots].sum())
        found.append(int(forest.end[first:behind].max()) - int(forest.start[first]) - covered)
    return found


def unattributed_rows(parts: TraceContents) -> list[Unattributed]:
    """Accelerator time that no layer and no other host span answers for, by reason."""
    if parts.activity is None:
        return []
    lost, by_graph = parts.activity.source < 0, parts.activity.by_graph
    reasons = {BY_GRAPH: lost & by_graph, NO_LAUNCH: lost & ~by_graph}
    return [
        Unattributed(why, int(flags.sum()), int(parts.activity.duration[flags].sum()))
        for why, flags in reasons.items()
        if flags.any()
    ]
