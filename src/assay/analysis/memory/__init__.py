"""Memory of a model: weights, gradients, optimizer state, activations over time, KV cache; devices it fits on.

Counted from the lifetimes of storages in a capture; workspaces inside ops are modelled where a formula is known.
"""

from assay.analysis.memory.batches import LargestBatch, largest_batch
from assay.analysis.memory.caches import key_value, key_value_of_two
from assay.analysis.memory.comparison import PeakComparison, compared_peaks
from assay.analysis.memory.fitting import Fit, fits
from assay.analysis.memory.sharing import PeakParts, Target, need_of, targets
from assay.analysis.memory.totals import Memory, Occupancy, constant_bytes, memory_of

__all__ = [
    "Fit",
    "LargestBatch",
    "Memory",
    "Occupancy",
    "PeakComparison",
    "PeakParts",
    "Target",
    "compared_peaks",
    "constant_bytes",
    "fits",
    "key_value",
    "key_value_of_two",
    "largest_batch",
    "memory_of",
    "need_of",
    "targets",
]
