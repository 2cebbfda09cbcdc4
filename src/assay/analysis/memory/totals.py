"""Everything about a document's memory in one value."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.analysis.memory.caches import KeyValue, key_value
from assay.analysis.memory.lifetimes import (
    BY_STORAGES,
    PassStorages,
    Peak,
    alive,
    forward,
    peak_of,
    resident,
    saved_for_backward,
    training_step,
)
from assay.analysis.memory.optimizers import OptimizerState, state_of
from assay.analysis.memory.weights import TrainedParameter, trained, weights_of
from assay.document.document import Document
from assay.document.provenance import Counted, Figure, Modelled, Unknown

NOT_MODELLED = (
    "what an allocator rounds up and fragments",
    "workspaces of libraries and temporaries inside an operation",
    "the driver's context",
)

UNFUSED = (
    "in the training step attention was watched unfused, with its scores kept for backward: "
    "a device with a fused kernel needs less"
)

_NOT_WATCHED = Figure(None, Unknown("no training step was watched"))


class Occupancy(Struct, frozen=True, omit_defaults=True):
    """Memory over one pass."""

    total: Figure
    """At the peak: resident, alive, and the optimizer's where it is a training step."""
    resident: Figure
    """Parameters, buffers and inputs: there all the time."""
    moving: Figure
    """Activations, constants and gradients alive at the peak."""
    peak: Peak
    alive: list[int]
    """Bytes that come and go, during each operation."""


class Memory(Struct, frozen=True, omit_defaults=True):
    """What a model needs in memory."""

    parameters: Figure
    buffers: Figure
    inputs: Figure
    by_dtype: dict[str, int]
    """Bytes of parameters and buffers."""
    trained_parameters: int
    """Numbers that an optimizer updates."""
    gradients: Figure
    optimizer: OptimizerState
    inference: Occupancy | None
    """None where no operation was watched."""
    training: Occupancy | None
    """None where no training step was watched."""
    training_peak: Figure
    """The total of `training`, or why there is none."""
    saved: Figure
    """What the forward pass makes and the backward pass reads again."""
    cache: KeyValue | None = None
    assumptions: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = NOT_MODELLED


def memory_of(document: Document, *, optimizer: str = "adamw", master_weights: bool = False) -> Memory:
    """What the document's model needs, for inference and, where that was watched, for training."""
    parameters, notes = trained(document)
    state = state_of(optimizer, parameters, master_weights=master_weights)
    weights = weights_of(document)
    tensors = Counted("elements times their size, a storage once")
    step = training_step(document)
    training = None if step is None else _training(step, state)
    return Memory(
        parameters=Figure(weights.parameters, tensors),
        buffers=Figure(weights.buffers, tensors),
        inputs=_inputs(document),
        by_dtype=weights.by_dtype,
        trained_parameters=sum(parameter.elements for parameter in parameters),
        gradients=_gradients(step, parameters),
        optimizer=state,
        inference=None if _only_read(document) else _occupancy(forward(document)),
        training=training,
        training_peak=_NOT_WATCHED if training is None else training.total,
        saved=_NOT_WATCHED if step is None else Figure(saved_for_backward(step), BY_STORAGES),
        cache=key_value(document),
        assumptions=notes + ((UNFUSED,) if _attention_unfused(document) else ()),
    )


def _only_read(document: Document) -> bool:
    """Whether it is an exported program that did not run, which does not say when memory is taken and freed."""
    return document.origin.kind == "exported" and not document.storages


def _inputs(document: Document) -> Figure:
    if not document.storages:
        return Figure(None, Unknown("nothing was watched"))
    return Figure(resident(document.storages, "input"), BY_STORAGES)


def _attention_unfused(document: Document) -> bool:
    """Whether attention is one operation in the forward pass and several in the training step."""
    fused = any("scaled_dot_product" in kind.target for kind in document.kinds)
    step = document.training.kinds if document.training is not None else ()
    return fused and any(kind.target.startswith("aten._safe_softmax.") for kind in step)


def _gradients(step: PassStorages | None, parameters: Sequence[TrainedParameter]) -> Figure:
    if step is not None:
        size = sum(storage.bytes for storage in step.storages if storage.role == "gradient")
        return Figure(size, BY_STORAGES)
    every = Modelled("a gradient for each trained parameter", ("every one gets a gradient, in its own dtype",))
    return Figure(sum(parameter.bytes for parameter in parameters), every)


def _occupancy(watched: PassStorages) -> Occupancy | None:
    """A pass with nothing beside it."""
    series = alive(watched.moving, len(watched.ops))
    peak = peak_of(watched, series)
    if peak is None:
        return None
    fixed = sum(resident(watched.storages, role) for role in ("parameter", "buffer", "input"))
    return Occupancy(
        total=Figure(fixed + peak.bytes, BY_STORAGES),
        resident=Figure(fixed, BY_STORAGES),
        moving=Figure(peak.bytes, BY_STORAGES),
        peak=peak,
        alive=series,
    )


def _training(step: PassStorages, state: OptimizerState) -> Occupancy | None:
    """A training step after the first, when the optimizer's state is there."""
    found = _occupancy(step)
    if found is None:
        return None
    kept = int(state.bytes.value or 0) + int(state.master.value or 0)
    size = int(found.total.value or 0) + kept
    how = state.bytes.how if isinstance(state.bytes.how, Modelled) else BY_STORAGES
    return Occupancy(Figure(size, how), found.resident, found.moving, found.peak, found.alive)
