"""Forward statistics: the inputs, outputs and time of every call of every module."""

from assay.forward_stats.call_list import CallList, clear_forward_stats
from assay.forward_stats.recorder import ForwardRecorder, record_forward_stats
from assay.forward_stats.results import ForwardStats, TensorStats
from assay.forward_stats.timing import timing_of

record_torch_module_forward_stats = record_forward_stats

__all__ = [
    "CallList",
    "ForwardRecorder",
    "ForwardStats",
    "TensorStats",
    "clear_forward_stats",
    "record_forward_stats",
    "record_torch_module_forward_stats",
    "timing_of",
]
