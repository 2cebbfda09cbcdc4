"""Predicted beside measured peak memory of a profiled document, with the reasons why they differ."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from assay import units
from assay.analysis.memory.totals import Memory
from assay.document.document import Document
from assay.document.profile import MemoryMeasured
from assay.document.provenance import Figure

STEP = "training step"
CLOSE = 0.1
"""Up to this relative difference, a measured value confirms the other, and no reason is given."""
_SMALL_BYTES = 1 << 20
"""Differences of less than this need no reason: single pages and small temporaries."""


class PeakComparison(Struct, frozen=True, omit_defaults=True):
    """The peak of one pass in bytes beyond parameters, buffers and inputs: predicted, and measured in two ways."""

    name: str
    """`forward pass` or `training step`."""
    predicted: Figure
    """From the lifetimes of storages and the workspaces inside ops."""
    measured: Figure
    """What torch's allocator handed out at the peak."""
    ratio: float | None
    """`predicted` divided by `measured`; null if either is unknown."""
    process_growth: Figure
    """The growth of the resident set of the process."""
    process_peak: Figure
    """The peak of the resident set of the process."""
    reasons: tuple[str, ...] = ()
    """Why the values differ."""


def compared_peaks(document: Document, memory: Memory) -> list[PeakComparison]:
    """The forward pass and the training step, as far as they were measured; empty without a profile."""
    profile = document.profile
    if profile is None:
        return []
    step = None if profile.step is None else profile.step.memory
    passes = {"forward pass": profile.memory, STEP: step}
    on_cpu = profile.device.startswith("cpu")
    return [_compared(name, each, memory, on_cpu=on_cpu) for name, each in passes.items() if each is not None]


def _compared(name: str, measured: MemoryMeasured, memory: Memory, *, on_cpu: bool) -> PeakComparison:
    predicted, allocated = measured.predicted_activations, measured.allocator_growth
    known = predicted.value is not None and allocated.value
    process = _process_reasons(measured) if on_cpu else ()
    reasons = [*_prediction_reasons(measured, memory, in_step=name == STEP), *process]
    return PeakComparison(
        name=name,
        predicted=predicted,
        measured=allocated,
        ratio=float(predicted.value or 0) / float(allocated.value or 1) if known else None,
        process_growth=measured.process_growth,
        process_peak=measured.process_peak,
        reasons=tuple(reasons),
    )


def _prediction_reasons(measured: MemoryMeasured, memory: Memory, *, in_step: bool) -> Iterator[str]:
    """Why the prediction differs from what torch allocated."""
    difference = _difference(measured.allocator_growth, measured.predicted_activations)
    if difference is None:
        return
    at = f", reached in {measured.allocator_op}" if measured.allocator_op else ""
    if difference > 0:
        yield f"torch allocated {units.size(difference)} more at its peak{at}, than predicted"
        if memory.workspace_unknown:
            yield f"workspace unknown, and not predicted: {', '.join(memory.workspace_unknown)}"
        if in_step:
            yield "temporaries of the optimizer step are not predicted"
    else:
        yield f"torch allocated {units.size(-difference)} less at its peak{at}, than predicted"
        yield from memory.assumptions


def _process_reasons(measured: MemoryMeasured) -> Iterator[str]:
    """Why the resident set grew by more or less than torch allocated."""
    difference = _difference(measured.process_growth, measured.allocator_growth)
    if difference is None:
        return
    if difference > 0:
        yield (
            f"the resident set grew by {units.size(difference)} more than torch allocated: memory that the C library "
            "keeps after it is freed, and buffers that libraries allocate without torch"
        )
    else:
        yield f"{units.size(-difference)} that torch allocated were never written to, so they took no memory"


def _difference(larger: Figure, smaller: Figure) -> int | None:
    """`larger` minus `smaller`; None if either is unknown or they are close."""
    if larger.value is None or smaller.value is None:
        return None
    difference = int(larger.value - smaller.value)
    return None if abs(difference) <= max(CLOSE * smaller.value, _SMALL_BYTES) else difference
