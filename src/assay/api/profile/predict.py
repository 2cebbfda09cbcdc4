"""Prediction of a model's memory at other sizes, from captures that use shapes only."""

from __future__ import annotations

from assay import host
from assay.analysis.memory import Occupancy, memory_of
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.errors import AssayError, InputsError, UsageError
from assay.sources.placing import model_device
from assay.sources.resizing import Axis, resized_shapes


class Predictor:
    """Predicts the peak memory of a pass or a training step at any sizes, with one capture per combination."""

    def __init__(self, profiled: ProfiledModel, axes: dict[str, Axis], optimizer: str = "adamw") -> None:
        self._profiled, self._axes, self._optimizer = profiled, axes, optimizer
        self._passes: dict[tuple[object, ...], Occupancy] = {}

    def peak(self, *, backward: bool = False, **sizes: int) -> int:
        """Peak bytes of weights, inputs and activations; with `backward`, of gradients and optimizer state too."""
        return int(self.occupancy(backward=backward, **sizes).total.value or 0)

    def occupancy(self, *, backward: bool = False, **sizes: int) -> Occupancy:
        """Memory during the pass, or during a training step with `backward`."""
        key = (backward, *(sizes[name] for name in self._axes))
        if key not in self._passes:
            inputs = resized_shapes(self._profiled.inputs, base=self._axes, **sizes)
            document = on_shapes(self._profiled.with_inputs(inputs), backward=backward)
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            self._passes[key] = occupancy_of(self._profiled, document, self._optimizer, backward=backward, at=text)
        return self._passes[key]


def on_shapes(profiled: ProfiledModel, *, backward: bool) -> Document:
    """The document of a pass on shapes, with a training step if `backward`; on fake tensors if it fails on meta."""
    document = profiled.observe(mode="meta", backward=backward)
    if document.run.backward_failure is not None:
        return profiled.observe(mode="fake", backward=True)
    return document


def occupancy_of(
    profiled: ProfiledModel, document: Document, optimizer: str, *, backward: bool, at: str = "these sizes"
) -> Occupancy:
    """Memory during a pass, or of a training step with `backward`, that was recorded on shapes."""
    failure = document.run.failure or (document.run.backward_failure if backward else None)
    if failure is not None:
        raise InputsError(f"the model does not run at {at}: {failure.error}")
    memory = memory_of(document, optimizer=optimizer, device=_device(profiled))
    occupancy = memory.training if backward else memory.inference
    if occupancy is None:
        what = "has no trainable parameters" if backward else "ran no ops"
        raise UsageError(f"memory cannot be predicted: the model {what}")
    return occupancy


def memory_limit(profiled: ProfiledModel, given: int | None) -> int | None:
    """The bytes that a pass may need: as given, and on a GPU what the environment allows; None without a limit."""
    if host.cuda_memory_fraction() is None:
        return given
    import torch

    from assay.recorder.cuda_memory import allowed_bytes

    allowed = allowed_bytes(torch.device(_device(profiled)))
    return min((each for each in (given, allowed) if each is not None), default=None)


def over_limit(
    profiled: ProfiledModel,
    predicted: Document,
    limit: int,
    optimizer: str,
    *,
    backward: bool = False,
    strict: bool = True,
) -> str | None:
    """The reason not to run a model with a memory limit in bytes, or None; `predicted` is a pass on shapes.

    If the memory needed is unknown, that is a reason only with `strict`.
    """
    try:
        occupancy = occupancy_of(profiled, predicted, optimizer, backward=backward)
    except AssayError as error:
        return f"there is a memory limit, and the memory needed is unknown: {error}" if strict else None
    needed = int(occupancy.total.value or 0)
    return None if needed <= limit else f"{needed:,} bytes are predicted, the limit is {limit:,}"


def _device(profiled: ProfiledModel) -> str:
    """The device on which the model runs."""
    return str(profiled.options.device or model_device(profiled.opened.module) or "cpu")
