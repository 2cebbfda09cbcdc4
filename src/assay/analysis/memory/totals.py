"""The memory of a document's model: weights, gradients, optimizer state, peaks and KV cache."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.attention import SOFTMAX
from assay.analysis.memory.caches import KeyValue, key_value
from assay.analysis.memory.lifetimes import (
    BY_STORAGES,
    PassStorages,
    Peak,
    forward,
    live_bytes,
    peak_of,
    resident,
    saved_for_backward,
    training_step,
)
from assay.analysis.memory.optimizers import OptimizerState, state_of, unknown_state
from assay.analysis.memory.weights import TrainedParameter, trained, weights_of
from assay.analysis.memory.workspaces import WORKSPACE, Workspaces, workspaces
from assay.analysis.modules_run import modules_run
from assay.analysis.parameters import Parameters, parameters, stored_by_dtype
from assay.display import Displayed
from assay.document.document import Document
from assay.document.provenance import Counted, Figure, Modelled, Provenance, Unknown
from assay.document.roles import CONSTANT
from assay.document.rows import Op, OpKind

NOT_MODELLED = (
    "allocator rounding and fragmentation",
    "temporaries inside ops and buffers of matrix libraries",
    "temporaries of the optimizer step",
    "the driver's context",
)

UNFUSED = (
    "the training step was recorded with unfused attention, which keeps its scores for the backward pass: "
    "a device with a fused kernel needs less memory"
)

WITH_WORKSPACES = "storages of the capture, and workspaces inside ops"

_NO_PASS = Figure(None, Unknown("no pass was recorded"))
_UNDISTINGUISHED = Figure(None, Unknown("the checkpoint does not distinguish parameters from buffers"))
_UNTRAINED = Figure(None, Unknown("a checkpoint does not state which parameters are trained"))


class Occupancy(Displayed, Struct, frozen=True, omit_defaults=True):
    """Memory during one pass."""

    total: Figure
    """Peak memory: resident and live tensors, and the optimizer state in a training step."""
    resident: Figure
    """Parameters, buffers and inputs, which exist during the whole pass."""
    moving: Figure
    """Activations, constants, gradients and workspaces live at the peak."""
    peak: Peak
    alive: list[int]
    """Live bytes during each op, without parameters, buffers and inputs."""


class Memory(Displayed, Struct, frozen=True, omit_defaults=True):
    """The memory that a model needs for inference and training.

    Attributes:
        parameters: Bytes of parameters; tied ones count once.
        buffers: Bytes of buffers.
        inputs: Bytes of inputs.
        by_dtype: Bytes of parameters and buffers per dtype.
        trained_parameters: Elements that an optimizer updates; None if unknown.
        gradients: Bytes of gradients.
        optimizer: State of the optimizer and its master weights.
        inference: Memory during the forward pass; None if no op was recorded.
        inference_peak: The total of `inference`, or the reason why it is unknown.
        training: Memory during a training step; None if none was recorded.
        training_peak: The total of `training`, or the reason why it is unknown.
        saved: Bytes that the forward pass creates and the backward pass reads.
        cache: The KV cache; None if the forward pass did not return one.
        constants: Bytes of tensors that the pass reads and that are neither parameters, buffers nor inputs, such as
            the weights of a frozen file.
        partial: Whether the forward pass stopped midway, so that its peak covers only the ops before.
        assumptions: Assumptions behind the values.
        not_modelled: What the values do not include.
        workspace_unknown: Names of the ops that allocate memory inside themselves, of which the size is unknown and
            not included.
    """

    parameters: Figure
    buffers: Figure
    inputs: Figure
    by_dtype: dict[str, int]
    trained_parameters: int | None
    gradients: Figure
    optimizer: OptimizerState
    inference: Occupancy | None
    inference_peak: Figure
    training: Occupancy | None
    training_peak: Figure
    saved: Figure
    cache: KeyValue | None = None
    constants: int = 0
    assumptions: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = NOT_MODELLED
    partial: bool = False
    workspace_unknown: tuple[str, ...] = ()

    @property
    def has_large_constants(self) -> bool:
        """Whether constants matter beside the parameters: in a frozen file, they are the weights."""
        return 10 * self.constants > (self.parameters.value or 0)


def constant_bytes(document: Document) -> int:
    """Bytes of tensors that the pass reads and that are neither parameters, buffers nor inputs."""
    return sum(storage.bytes for storage in document.storages if storage.role == CONSTANT)


def memory_of(
    document: Document, *, optimizer: str = "adamw", master_weights: bool = False, device: str | None = None
) -> Memory:
    """The memory that the document's model needs for inference and, if a training step was recorded, for training.

    Workspaces are those on `device`; by default, on the device where the model ran.
    """
    if not document.knows_tensors:
        return _stored_memory(document, optimizer)
    parameters, notes = trained(document)
    state = state_of(optimizer, parameters, master_weights=master_weights)
    weights = weights_of(document)
    tensors = Counted("elements × element size, each storage once")
    step = training_step(document)
    place = document.machine.device if device is None else device
    inside = [_workspaces(each, place) for each in (forward(document), step) if each is not None]
    training = None if step is None else _training(step, inside[-1], state)
    inference = None if _only_read(document) else _occupancy(forward(document), inside[0])
    return Memory(
        parameters=Figure(weights.parameters, tensors),
        buffers=Figure(weights.buffers, tensors),
        inputs=_inputs(document),
        by_dtype=weights.by_dtype,
        trained_parameters=sum(parameter.elements for parameter in parameters),
        gradients=_gradients(step, parameters),
        optimizer=state,
        inference=inference,
        inference_peak=_unknown_peak(document) if inference is None else inference.total,
        training=training,
        training_peak=_no_step(document) if training is None else training.total,
        saved=_no_step(document) if step is None else Figure(saved_for_backward(step), BY_STORAGES),
        cache=key_value(document),
        constants=constant_bytes(document),
        assumptions=(*notes, *((UNFUSED,) if _attention_unfused(document) else ()), *_idle(document)),
        partial=document.partial,
        workspace_unknown=tuple(dict.fromkeys(name for each in inside for name in each.unknown)),
    )


def _workspaces(recorded_pass: PassStorages, device: str) -> Workspaces:
    return workspaces(recorded_pass.kinds, recorded_pass.ops, device)


def _stored_memory(document: Document, optimizer: str) -> Memory:
    """The memory of a checkpoint's tensors; everything else is unknown."""
    rows = document.weights.tensors if document.weights is not None else []
    counted = parameters(document)
    own, rest = _stored_sizes(counted)
    unknown = _UNDISTINGUISHED if counted.bytes is None else _UNTRAINED
    return Memory(
        parameters=own,
        buffers=rest,
        inputs=_inputs(document),
        by_dtype={dtype: sums.bytes for dtype, sums in stored_by_dtype(rows).items()},
        trained_parameters=None,
        gradients=unknown,
        optimizer=unknown_state(optimizer, unknown),
        inference=None,
        inference_peak=_NO_PASS,
        training=None,
        training_peak=_no_step(document),
        saved=_no_step(document),
    )


def _stored_sizes(counted: Parameters) -> tuple[Figure, Figure]:
    """The bytes of the parameters of a checkpoint and of its other tensors; together if it does not state roles."""
    if counted.stored is None:
        return Figure(None, Unknown("the weights were not read")), _UNDISTINGUISHED
    if counted.bytes is None:
        return Figure(counted.stored.bytes, Counted("tensors as stored, buffers included")), _UNDISTINGUISHED
    others = Figure(counted.stored.bytes - counted.bytes, Counted("tensors as stored that are not parameters"))
    return Figure(counted.bytes, Counted("parameters as stored")), others


def _no_step(document: Document) -> Figure:
    """An unknown value, because the training step stopped or was not recorded."""
    failure = document.run.backward_failure
    reason = "no training step was recorded" if failure is None else f"the training step stopped: {failure.error}"
    return Figure(None, Unknown(reason))


def _idle(document: Document) -> tuple[str, ...]:
    """A note on the modules that did not run; none if all did or it is unknown."""
    run = modules_run(document)
    if run is None or run.ran == run.of:
        return ()
    return (f"{run.of - run.ran} of {run.of} modules with parameters did not run: their activations are unknown",)


def _only_read(document: Document) -> bool:
    """Whether it is an exported program that did not run, so that lifetimes of storages are unknown."""
    return document.origin.kind == "exported" and not document.storages


def _unknown_peak(document: Document) -> Figure:
    """The peak of a pass without lifetimes of storages: the reason why it is unknown."""
    if _only_read(document):
        return Figure(None, Unknown("the exported program was read, not run"))
    return Figure(None, Unknown("no ops were recorded before the stop" if document.partial else "no ops ran"))


def _inputs(document: Document) -> Figure:
    if not document.storages:
        return _NO_PASS
    return Figure(resident(document.storages, "input"), BY_STORAGES)


def _attention_unfused(document: Document) -> bool:
    """Whether attention is a fused op in the forward pass and several ops in the training step."""
    fused = any("scaled_dot_product" in kind.target for kind in document.kinds)
    step = document.training
    # Up to torch 2.4, unfused attention has the same softmax as other layers, so their number decides.
    return fused and step is not None and _softmaxes(step.kinds, step.ops) > _softmaxes(document.kinds, document.ops)


def _softmaxes(kinds: Sequence[OpKind], ops: Sequence[Op]) -> int:
    is_softmax = [kind.target.rpartition(".")[0] in SOFTMAX for kind in kinds]
    return sum(is_softmax[op.kind] for op in ops if op.phase == "forward")


def _gradients(step: PassStorages | None, parameters: Sequence[TrainedParameter]) -> Figure:
    if step is not None:
        size = sum(storage.bytes for storage in step.storages if storage.role == "gradient")
        return Figure(size, BY_STORAGES)
    how = Modelled("one gradient per trained parameter", ("every parameter gets a gradient, in its own dtype",))
    return Figure(sum(parameter.bytes for parameter in parameters), how)


def _occupancy(recorded_pass: PassStorages, inside: Workspaces) -> Occupancy | None:
    """Memory during a pass, without optimizer state; None if no op ran."""
    whole = replace(recorded_pass, storages=[*recorded_pass.storages, *inside.storages])
    series = live_bytes(whole.moving, len(whole.ops))
    peak = peak_of(whole, series)
    if peak is None:
        return None
    how = Modelled(WITH_WORKSPACES, inside.formulas) if peak.by_role.get(WORKSPACE) else BY_STORAGES
    fixed = sum(resident(whole.storages, role) for role in ("parameter", "buffer", "input"))
    return Occupancy(
        total=Figure(fixed + peak.bytes, how),
        resident=Figure(fixed, BY_STORAGES),
        moving=Figure(peak.bytes, how),
        peak=peak,
        alive=series,
    )


def _training(step: PassStorages, inside: Workspaces, state: OptimizerState) -> Occupancy | None:
    """Memory during a training step other than the first, when the optimizer state exists; None if no op ran."""
    occupancy = _occupancy(step, inside)
    if occupancy is None:
        return None
    kept = int(state.bytes.value or 0) + int(state.master.value or 0)
    size = int(occupancy.total.value or 0) + kept
    return replace(occupancy, total=Figure(size, _combined(occupancy.total.how, state.bytes.how)))


def _combined(storages: Provenance, state: Provenance) -> Provenance:
    """The provenance of storages and optimizer state together: modelled if either is."""
    models = [how for how in (storages, state) if isinstance(how, Modelled)]
    if not models:
        return BY_STORAGES
    return Modelled("; ".join(how.by for how in models), tuple(note for how in models for note in how.assumptions))
