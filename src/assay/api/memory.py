"""`assay.memory`: what a model needs in memory."""

from __future__ import annotations

from typing import Any

from assay.analysis.memory import Memory, memory_of
from assay.api.observe import observe


def memory(
    model: Any, inputs: Any = None, *, optimizer: str = "adamw", master_weights: bool = False, **options: Any
) -> Memory:
    """What `model` needs in memory; other options are those of `observe`."""
    return memory_of(observe(model, inputs, **options), optimizer=optimizer, master_weights=master_weights)
