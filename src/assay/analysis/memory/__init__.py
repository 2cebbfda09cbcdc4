"""What a model needs in memory: weights, gradients, optimizer state, activations over time, caches; where it fits.

Counted from the storages that a capture saw live and die. What an allocator or a library adds is not modelled.
"""

from assay.analysis.memory.batches import LargestBatch, largest_batch
from assay.analysis.memory.caches import key_value, key_value_of_two
from assay.analysis.memory.fitting import Fit, fits
from assay.analysis.memory.totals import Memory, memory_of

__all__ = [
    "Fit",
    "LargestBatch",
    "Memory",
    "fits",
    "key_value",
    "key_value_of_two",
    "largest_batch",
    "memory_of",
]
