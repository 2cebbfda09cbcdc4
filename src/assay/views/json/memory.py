"""The JSON of `assay memory`."""

from __future__ import annotations

from msgspec import field

from assay.analysis.memory import Fit, LargestBatch, Memory, PeakComparison, compared_peaks
from assay.analysis.modules_run import ModulesRun, modules_run
from assay.document.document import Document
from assay.document.provenance import Figure
from assay.views.json.files import ResultFile, partial_keys


class MemoryFile(ResultFile, frozen=True, omit_defaults=True):
    """The memory one model needs, the devices it fits on, and the largest batch per device."""

    model: str
    model_class: str
    mode: str
    """How the model was run: `real`, `meta`, `fake`, …"""
    memory: Memory
    cache_at: dict[str, Figure] = field(default_factory=dict)
    """The size of the KV cache at the requested batch and length."""
    fits: list[Fit] = field(default_factory=list)
    largest_batch: dict[str, LargestBatch] = field(default_factory=dict)
    """By device: of a training step if one was recorded, otherwise of inference."""
    largest_inference_batch: dict[str, LargestBatch] = field(default_factory=dict)
    """By device: of inference, if `largest_batch` is that of a training step."""
    measured: list[PeakComparison] = field(default_factory=list)
    """Predicted beside measured peaks; empty if the document holds no measurements."""
    modules_run: ModulesRun | None = None
    """How many modules ran; null if unknown. The activations are only theirs."""
    assumptions: tuple[str, ...] = ()
    """Assumptions of the recorded pass."""


def memory_file(
    document: Document,
    memory: Memory,
    *,
    cache: tuple[str, Figure] | None = None,
    fits: list[Fit],
    batches: dict[str, LargestBatch],
    inference_batches: dict[str, LargestBatch] | None = None,
) -> MemoryFile:
    """The JSON of the memory of `document`."""
    return MemoryFile(
        model=document.origin.location,
        model_class=document.model_class,
        mode=document.run.mode,
        memory=memory,
        cache_at=dict([cache]) if cache else {},
        fits=fits,
        largest_batch=batches,
        largest_inference_batch=inference_batches or {},
        measured=compared_peaks(document, memory),
        modules_run=modules_run(document),
        assumptions=document.run.assumptions,
        **partial_keys(document),
    )
