"""The clock, and functions that wait for devices whose work continues after an op has returned."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

now = time.perf_counter_ns
processor_now = time.thread_time_ns


def synchronizer(device: torch.device) -> Callable[[], None]:
    """A function that waits until all work launched on `device` is done; it does nothing on the CPU."""
    if device.type in ("cpu", "meta"):
        return lambda: None
    wait: Callable[[], None] = getattr(torch, device.type).synchronize
    return wait


def device_of(tensors: list[torch.Tensor]) -> torch.device:
    """The device that runs the ops: the first tensor's accelerator, or the CPU if no tensor is on an accelerator."""
    accelerators = [tensor.device for tensor in tensors if tensor.device.type not in ("cpu", "meta")]
    return accelerators[0] if accelerators else torch.device("cpu")
