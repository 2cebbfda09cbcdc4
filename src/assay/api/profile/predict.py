"""Prediction of a model's memory at other sizes, from captures that use shapes only."""

from __future__ import annotations

from assay.analysis.memory import memory_of
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.errors import AssayError, InputsError, UsageError
from assay.sources.resizing import Axis, resized


class Predictor:
    """Predicts the peak memory of a pass at any sizes, with one capture per combination of sizes."""

    def __init__(self, profiled: ProfiledModel, axes: dict[str, Axis]) -> None:
        self._profiled, self._axes = profiled, axes
        self._peaks: dict[tuple[int, ...], int] = {}

    def peak(self, **sizes: int) -> int:
        """Peak bytes of weights, inputs and activations at these sizes."""
        key = tuple(sizes[name] for name in self._axes)
        if key not in self._peaks:
            resized_model = self._profiled.with_inputs(resized(self._profiled.inputs, base=self._axes, **sizes))
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            self._peaks[key] = peak_of(resized_model.observe(mode="meta"), text)
        return self._peaks[key]


def peak_of(document: Document, at: str = "these sizes") -> int:
    """Peak bytes of a pass that was recorded on shapes."""
    if document.run.failure is not None:
        raise InputsError(f"the model does not run at {at}: {document.run.failure.error}")
    memory = memory_of(document)
    occupancy = memory.training or memory.inference
    if occupancy is None or occupancy.total.value is None:
        raise UsageError("memory cannot be predicted: the model ran no ops")
    return int(occupancy.total.value)


def over_limit(predicted: Document, limit: int) -> str | None:
    """The reason not to run a model with a memory limit in bytes, or None; `predicted` is a pass on shapes."""
    try:
        needed = peak_of(predicted)
    except AssayError as error:
        return f"there is a memory limit, and the memory needed is unknown: {error}"
    return None if needed <= limit else f"{needed:,} bytes are predicted, the limit is {limit:,}"
