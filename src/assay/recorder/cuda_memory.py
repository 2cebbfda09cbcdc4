"""The part of a GPU's memory that this process may use, if PYTORCH_CUDA_MEMORY_FRACTION limits it."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from assay import host


def limit(devices: Iterable[torch.device]) -> None:
    """Let torch allocate no more than that fraction on these devices, for the rest of the process."""
    fraction = host.cuda_memory_fraction()
    if fraction is None:
        return
    for index in {_index(device) for device in devices if device.type == "cuda"}:
        torch.cuda.set_per_process_memory_fraction(fraction, index)


def allowed_bytes(device: torch.device) -> int | None:
    """The bytes that this process may use on the device; None if nothing limits them."""
    fraction = host.cuda_memory_fraction()
    if fraction is None or device.type != "cuda":
        return None
    return int(fraction * torch.cuda.get_device_properties(_index(device)).total_memory)


def _index(device: torch.device) -> int:
    return int(torch.cuda.current_device() if device.index is None else device.index)
