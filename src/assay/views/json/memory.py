"""The JSON of `assay memory`."""

from __future__ import annotations

from msgspec import field

from assay.analysis.memory import Fit, LargestBatch, Memory
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
    """By device."""
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
        modules_run=modules_run(document),
        assumptions=document.run.assumptions,
        **partial_keys(document),
    )
