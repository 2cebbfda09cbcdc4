"""torch's settings for the precision of float32 products and convolutions."""

from __future__ import annotations

from typing import Any

import torch


def float32_settings() -> dict[str, Any]:
    """The fields of `Machine` that describe these settings."""
    backends: Any = torch.backends
    try:
        precision, tf32 = torch.get_float32_matmul_precision(), bool(backends.cudnn.allow_tf32)
    except RuntimeError:  # torch 2.9 and later, after precisions were set by their new names
        precision = "high" if backends.cuda.matmul.fp32_precision == "tf32" else "highest"
        tf32 = backends.cudnn.conv.fp32_precision == "tf32"
    return {"matmul_precision": precision, "cudnn_tf32": tf32}
