"""Time, kernels, memory and ops of each layer, and of everything outside all layers."""

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
    """The parsed contents of one trace, from which rows are computed."""

    columns: Columns
    forest: Forest
    modules: Modules
    backward: Backward
    activity: Activity | None
    memory_layers: SmallInts
    steps: list[StepTimes]
    facts: TraceFacts | None


def layer_rows(parts: TraceContents) -> list[LayerTimes]:
    """One row per layer, in the order of their first calls."""
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
    """Accelerator times per layer; None without accelerator activity."""
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
    """The module call that launched each kernel; -1 if it was launched outside modules."""
    assert parts.activity is not None
    return looked_up(parts.modules.owner, parts.activity.source, -1)


def kernel_backward_layers(parts: TraceContents) -> SmallInts:
    """The layer whose backward pass launched each kernel; -1 if there is none or a module call launched it."""
    assert parts.activity is not None
    outside = kernel_calls(parts) < 0
    return np.where(outside, looked_up(parts.backward.layer, parts.activity.source, -1), -1)


def _backward_cpu(parts: TraceContents, count: int) -> list[int] | None:
    """The backward CPU time of each layer; None if the trace contains no backward pass."""
    if not parts.backward.inside.any():
        return None
    chosen = (parts.modules.owner < 0) & (parts.backward.layer >= 0)
    times: list[int] = added(parts.backward.layer[chosen], parts.forest.own[chosen], count).tolist()
    return times


def _operations(parts: TraceContents) -> list[dict[str, int]]:
    """The ops that each layer ran itself with their counts, most frequent first."""
    columns, forest, modules = parts.columns, parts.forest, parts.modules
    counts_by_layer: list[dict[str, int]] = [{} for _ in modules.names]
    is_op = (columns.roles == Role.OP) & (modules.layer_of_name[:-1] < 0)
    places = np.flatnonzero(forest.flagged(is_op) & (modules.owner >= 0))
    if not len(places):
        return counts_by_layer
    keys = modules.layer[modules.owner[places]].astype(np.int64) * len(columns.names) + forest.name[places]
    pairs, counts = np.unique(keys, return_counts=True)
    for place in np.lexsort((pairs, -counts)).tolist():
        layer, name = divmod(int(pairs[place]), len(columns.names))
        counts_by_layer[layer][columns.names[name]] = int(counts[place])
    return counts_by_layer


def outside_rows(parts: TraceContents) -> list[OutsideTimes]:
    """The time outside all modules' forward calls by category; categories without time are omitted."""
    forest = parts.forest
    chosen = _outside_kinds(parts.backward, parts.modules.owner < 0)
    cpu = {what: int(forest.own[flags].sum()) for what, flags in chosen.items()}
    cpu[SILENT] = sum(silent_ns(forest))
    gpu: dict[str, tuple[int, int]] = {}
    if parts.activity is not None:
        activity = parts.activity
        outside = (activity.source >= 0) & (kernel_calls(parts) < 0)
        for what, flags in chosen.items():
            launched = outside & looked_up(flags, activity.source, 0)
            gpu[what] = int(activity.duration[launched].sum()), int(launched.sum())
    rows = [
        OutsideTimes(what, cpu[what], *(gpu.get(what, (0, 0)) if parts.activity is not None else (None, None)))
        for what in cpu
    ]
    return [row for row in rows if row.cpu_ns or row.gpu_ns]


def _outside_kinds(backward: Backward, outside: Flags) -> dict[str, Flags]:
    """The spans outside modules by category; each span has exactly one."""
    of_layers, optimizing = outside & (backward.layer >= 0), outside & backward.optimizing
    of_no_layer = outside & backward.inside & ~of_layers
    optimizing &= ~of_layers & ~of_no_layer
    return {
        OF_LAYERS: of_layers,
        OF_NO_LAYER: of_no_layer,
        OPTIMIZER: optimizing,
        OTHER: outside & ~of_layers & ~of_no_layer & ~optimizing,
    }


def silent_ns(forest: Forest) -> list[int]:
    """Per track, the time between its first and last span that no span covers."""
    silent = []
    for first, behind in itertools.pairwise(forest.track_starts.tolist()):
        roots = forest.parent[first:behind] < 0
        covered = int(forest.duration[first:behind][roots].sum())
        silent.append(int(forest.end[first:behind].max()) - int(forest.start[first]) - covered)
    return silent


def unattributed_rows(parts: TraceContents) -> list[Unattributed]:
    """Accelerator time that cannot be attributed to any host span, by reason."""
    if parts.activity is None:
        return []
    lost, by_graph = parts.activity.source < 0, parts.activity.by_graph
    reasons = {BY_GRAPH: lost & by_graph, NO_LAUNCH: lost & ~by_graph}
    return [
        Unattributed(why, int(flags.sum()), int(parts.activity.duration[flags].sum()))
        for why, flags in reasons.items()
        if flags.any()
    ]
