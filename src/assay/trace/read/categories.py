"""What spans are, by the category that profilers give them."""

from __future__ import annotations

import re
from enum import IntEnum


class Role(IntEnum):
    """What a span is."""

    HOST = 0
    """Something on a thread that no other role names."""
    OP = 1
    ANNOTATION = 2
    PYTHON = 3
    RUNTIME = 4
    """A call into the accelerator's driver, such as a launch."""
    KERNEL = 5
    COPY = 6
    FILL = 7
    STEP = 8
    """What the profiler marks as a step, whatever runs in it."""
    ASIDE = 9
    """About the trace or a mirror of other spans: on no thread's time."""


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


def role_of(category: str, name: str) -> Role:
    """What the spans of a category are, and of steps by their name."""
    lower = category.lower()
    known = _ROLES.get(lower)
    if known is not None:
        return Role.STEP if known == Role.ANNOTATION and name.startswith(STEP) else known
    return Role.RUNTIME if lower.endswith(("_runtime", "_driver")) else Role.HOST


def device_kind(role: int, name: str) -> str:
    """`compute`, `communication`, `copy` or `fill`."""
    if role == Role.KERNEL:
        return "communication" if _COMMUNICATION.search(name) else "compute"
    return "copy" if role == Role.COPY else "fill"


def is_graph_launch(name: str) -> bool:
    """Whether a runtime call starts a recorded graph of kernels, which says nothing about layers."""
    return _GRAPH_LAUNCH.match(name) is not None


def is_synchronize(name: str) -> bool:
    """Whether a runtime call waits for the accelerator."""
    return _SYNCHRONIZE.match(name) is not None
