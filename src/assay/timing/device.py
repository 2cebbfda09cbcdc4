"""The clock, and what waits for a device, whose work goes on when an operation has returned."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

now = time.perf_counter_ns


def synchronizer(device: torch.device) -> Callable[[], None]:
    """What waits until everything launched on `device` is done; nothing where operations are synchronous."""
    if device.type in ("cpu", "meta"):
        return lambda: None
    wait: Callable[[], None] = getattr(torch, device.type).synchronize
    return wait


def device_of(tensors: list[torch.Tensor]) -> torch.device:
    """The device that does the work: an accelerator where any tensor lies on one."""
    found = [tensor.device for tensor in tensors if tensor.device.type not in ("cpu", "meta")]
    return found[0] if found else torch.device("cpu")
