"""The JSON of what a model needs in memory."""

from __future__ import annotations

from msgspec import Struct, field

from assay.analysis.memory import Fit, LargestBatch, Memory
from assay.document.document import Document
from assay.document.provenance import Figure


class MemoryFile(Struct, frozen=True, omit_defaults=True):
    """The memory of one model, and what was asked about it."""

    model: str
    model_class: str
    mode: str
    """How it was watched."""
    memory: Memory
    cache_at: dict[str, Figure] = field(default_factory=dict)
    """The cache at the batch and length that were asked for."""
    fits: list[Fit] = field(default_factory=list)
    largest_batch: dict[str, LargestBatch] = field(default_factory=dict)
    """By device."""
    assumptions: tuple[str, ...] = ()
    """Of the capture."""


def memory_file(
    document: Document,
    memory: Memory,
    *,
    cache: tuple[str, Figure] | None = None,
    fits: list[Fit],
    batches: dict[str, LargestBatch],
) -> MemoryFile:
    """The memory of `document` as its JSON holds it."""
    return MemoryFile(
        model=document.origin.location,
        model_class=document.model_class,
        mode=document.run.mode,
        memory=memory,
        cache_at=dict([cache]) if cache else {},
        fits=fits,
        largest_batch=batches,
        assumptions=document.run.assumptions,
    )
