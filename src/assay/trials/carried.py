"""Settings of torch that a child process takes over from its parent, so that it measures what the parent would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _set_cudnn_benchmark(enabled: bool) -> None:
    torch.backends.cudnn.benchmark = enabled


def _set_cudnn_tf32(enabled: bool) -> None:
    torch.backends.cudnn.allow_tf32 = enabled


_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "matmul_precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "deterministic": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "cudnn_benchmark": (lambda: torch.backends.cudnn.benchmark, _set_cudnn_benchmark),
    "cudnn_tf32": (lambda: torch.backends.cudnn.allow_tf32, _set_cudnn_tf32),
}


def torch_settings() -> dict[str, Any]:
    """The settings of this process, by name."""
    return {name: read() for name, (read, _) in _SETTINGS.items()}


def set_torch_settings(values: dict[str, Any]) -> None:
    """Take over settings that differ."""
    for name, value in values.items():
        read, write = _SETTINGS[name]
        if read() != value:
            write(value)
