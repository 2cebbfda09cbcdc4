"""What a model needs in memory at other sizes, from captures on shapes alone."""

from __future__ import annotations

from assay.analysis.memory import memory_of
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.errors import AssayError, InputsError, UsageError
from assay.sources.resizing import Axis, resized


class Predictor:
    """Bytes at the peak of a pass for any sizes; each is captured once."""

    def __init__(self, profiled: ProfiledModel, axes: dict[str, Axis]) -> None:
        self._profiled, self._axes = profiled, axes
        self._made: dict[tuple[int, ...], int] = {}

    def peak(self, **sizes: int) -> int:
        """Weights, inputs and activations at their peak."""
        key = tuple(sizes[name] for name in self._axes)
        if key not in self._made:
            again = self._profiled.with_inputs(resized(self._profiled.inputs, base=self._axes, **sizes))
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            self._made[key] = peak_of(again.observe(mode="meta"), text)
        return self._made[key]


def peak_of(document: Document, at: str = "these sizes") -> int:
    """Bytes at the peak of what was watched on shapes alone."""
    if document.run.failure is not None:
        raise InputsError(f"the model does not run at {at}: {document.run.failure.error}")
    if document.run.mode not in ("meta", "fake"):
        raise UsageError("memory is predicted on shapes alone, and this model needs data")
    memory = memory_of(document)
    occupancy = memory.training or memory.inference
    if occupancy is None or occupancy.total.value is None:
        raise UsageError("the model ran no operation: there is nothing to predict")
    return int(occupancy.total.value)


def over_limit(predicted: Document, limit: int) -> str | None:
    """Why a model must not run under `limit` bytes, from a pass on shapes alone; None where it may."""
    try:
        needed = peak_of(predicted)
    except AssayError as error:
        return f"what it needs in memory is not known, and there is a limit: {error}"
    return None if needed <= limit else f"{needed:,} bytes are predicted, the limit is {limit:,}"
