"""Computing in dtypes with fewer bits: autocast, bfloat16 weights, TF32."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from assay.document.trials import LOSSY
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import DRY_PASS, DRY_PASS_IMPORTS, device_of, map_tensors, require_modules
from assay.trials.runnable import Runnable


def with_autocast(runnable: Runnable, dtype: Any) -> Runnable:
    """The model run under autocast to `dtype`."""
    require_modules(runnable)
    device = device_of(runnable)
    if not any(parameter.dtype == torch.float32 for parameter in runnable.model.parameters()):
        raise NotApplicable("the model has no float32 parameters")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.autocast(device, dtype=dtype):
                works = torch.is_autocast_enabled(device)
        except RuntimeError:
            works = False
    if not works:
        raise NotApplicable(f"autocast does not support {str(dtype).removeprefix('torch.')} on {device}")
    runnable.contexts += (partial(torch.autocast, device, dtype=dtype),)
    return runnable


def bfloat16_autocast(runnable: Runnable) -> Runnable:
    """The model run under autocast to bfloat16."""
    return with_autocast(runnable, torch.bfloat16)


def float16_autocast(runnable: Runnable) -> Runnable:
    """The model run under autocast to float16."""
    return with_autocast(runnable, torch.float16)


def bfloat16_of(tensor: Any) -> Any:
    """The tensor in bfloat16 if it is float32."""
    return tensor.to(torch.bfloat16) if tensor.dtype == torch.float32 else tensor


def bfloat16_weights(runnable: Runnable) -> Runnable:
    """The model and its inputs in bfloat16."""
    require_modules(runnable)
    if not any(parameter.dtype == torch.float32 for parameter in runnable.model.parameters()):
        raise NotApplicable("the model has no float32 parameters")
    runnable.model._apply(bfloat16_of)
    runnable.args, runnable.kwargs = map_tensors(bfloat16_of, (runnable.args, runnable.kwargs))
    return runnable


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Within it, float32 products have this precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def tf32(runnable: Runnable) -> Runnable:
    """The model run with TF32 products."""
    if device_of(runnable) != "cuda" or torch.version.hip or torch.cuda.get_device_capability() < (8, 0):
        raise NotApplicable("TF32 requires an NVIDIA GPU of compute capability 8.0 or later")
    if torch.get_float32_matmul_precision() != "highest":
        raise NotApplicable("TF32 is on already")
    runnable.contexts += (partial(matmul_precision, "high"),)
    return runnable


_autocast = partial(
    Change,
    codes=("C211",),
    effect=LOSSY,
    parts=(*DRY_PASS, with_autocast),
    imports=(*DRY_PASS_IMPORTS, "import warnings", "from functools import partial"),
    stage="setting",
)

register(
    _autocast(
        name="bfloat16_autocast", summary="Compute products in bfloat16 with torch.autocast", apply=bfloat16_autocast
    )
)
register(
    _autocast(
        name="float16_autocast", summary="Compute products in float16 with torch.autocast", apply=float16_autocast
    )
)
register(
    Change(
        name="bfloat16_weights",
        summary="Convert the model and its inputs to bfloat16",
        codes=("W202", "C211"),
        effect=LOSSY,
        apply=bfloat16_weights,
        parts=(*DRY_PASS, bfloat16_of),
        imports=DRY_PASS_IMPORTS,
        stage="dtype",
    )
)
register(
    Change(
        name="tf32",
        summary="Compute float32 products with TF32 tensor cores",
        codes=("C212",),
        effect=LOSSY,
        apply=tf32,
        parts=(*DRY_PASS, matmul_precision),
        imports=(*DRY_PASS_IMPORTS, "from functools import partial"),
        stage="setting",
    )
)
