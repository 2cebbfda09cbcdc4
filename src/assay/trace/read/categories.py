"""The role of a span, derived from the category that the profiler assigned."""

from __future__ import annotations

import re
from enum import IntEnum


class Role(IntEnum):
    """What a span represents."""

    HOST = 0
    """A span on a thread that has no other role."""
    OP = 1
    ANNOTATION = 2
    PYTHON = 3
    RUNTIME = 4
    """A call into the accelerator's driver, such as a launch."""
    KERNEL = 5
    COPY = 6
    FILL = 7
    STEP = 8
    """A step marked by the profiler."""
    ASIDE = 9
    """Metadata about the trace or a mirror of other spans; not counted as time of any thread."""


_ROLES = {
    "cpu_op": Role.OP,
    "operator": Role.OP,
    "user_annotation": Role.ANNOTATION,
    "python_function": Role.PYTHON,
    "python": Role.PYTHON,
    "runtime": Role.RUNTIME,
    "kernel": Role.KERNEL,
    "concurrent_kernel": Role.KERNEL,
    "gpu_memcpy": Role.COPY,
    "memcpy": Role.COPY,
    "gpu_memset": Role.FILL,
    "memset": Role.FILL,
    "mtia_ccp_events": Role.KERNEL,
    "trace": Role.ASIDE,
    "overhead": Role.ASIDE,
    "gpu_user_annotation": Role.ASIDE,
    "cuda_sync": Role.ASIDE,
    "cuda_event": Role.ASIDE,
    "collective_comm": Role.ASIDE,
    "mtia_workloadd": Role.ASIDE,
}
STEP = "ProfilerStep#"
ON_HOST = (Role.HOST, Role.OP, Role.ANNOTATION, Role.PYTHON, Role.RUNTIME)
ON_DEVICE = (Role.KERNEL, Role.COPY, Role.FILL)

_COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|oneccl|hccl|deepep|all_?reduce|all_?gather|reduce_?scatter|sendrecv|broadcast_kernel|nvshmem",
    re.IGNORECASE,
)
_GRAPH_LAUNCH = re.compile(r"^(cuda|hip|cu)GraphLaunch")
_SYNCHRONIZE = re.compile(r"^(cuda|hip|cu)\w*Synchronize|^hipMemcpyWithStream$|^(cuda|hip)Memcpy$")
_LOADING = re.compile(r"^enumerate\(DataLoader\)|dataloader_next|get_\w+_batch|collate", re.IGNORECASE)
"""Annotations of torch's DataLoader, of Lightning's profilers, and of functions that collate batches."""


def role_of(category: str, name: str) -> Role:
    """The role of spans with this category; profiler steps are recognised by name."""
    lower = category.lower()
    role = _ROLES.get(lower)
    if role is not None:
        return Role.STEP if role == Role.ANNOTATION and name.startswith(STEP) else role
    return Role.RUNTIME if lower.endswith(("_runtime", "_driver")) else Role.HOST


def device_kind(role: int, name: str) -> str:
    """The kind of a device span: `compute`, `communication`, `copy` or `fill`."""
    if role == Role.KERNEL:
        return "communication" if _COMMUNICATION.search(name) else "compute"
    return "copy" if role == Role.COPY else "fill"


def is_graph_launch(name: str) -> bool:
    """Whether a runtime call launches a CUDA graph, whose kernels cannot be attributed to layers."""
    return _GRAPH_LAUNCH.match(name) is not None


def is_synchronize(name: str) -> bool:
    """Whether a runtime call waits for the accelerator."""
    return _SYNCHRONIZE.match(name) is not None


def is_loading(name: str) -> bool:
    """Whether a host span is the loading of input data."""
    return _LOADING.search(name) is not None
