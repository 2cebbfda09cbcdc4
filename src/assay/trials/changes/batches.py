"""Running more items per pass."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import (
    DRY_PASS,
    DRY_PASS_IMPORTS,
    dry_outputs,
    largest_error,
    map_tensors,
    require_modules,
    tensors_in,
)
from assay.trials.runnable import Runnable


def repeated(tensor: Any, dim: int, size: int, times: int) -> Any:
    """The tensor `times` times in a row along `dim` if it has `size` there."""
    if tensor.dim() <= dim or tensor.shape[dim] != size:
        return tensor
    return tensor.repeat(*[times if each == dim else 1 for each in range(tensor.dim())])


def first_rows(expected: Any, actual: Any) -> tuple[Any, Any]:
    """Two outputs with the tensors of the larger one cut to the sizes of the other, from the start."""
    sizes = iter(tensors_in(expected))

    def cut(tensor: Any) -> Any:
        other = next(sizes, None)
        if other is None or other.dim() != tensor.dim():
            return tensor
        return tensor[tuple(slice(size) for size in other.shape)]

    return expected, map_tensors(cut, actual)


def batch_dims(runnable: Runnable) -> list[int]:
    """Dimensions of the inputs that may be the batch, the likelier first."""
    first = any(getattr(module, "batch_first", True) is False for module in runnable.model.modules())
    images = any(tensor.dim() > 3 for tensor in tensors_in((runnable.args, runnable.kwargs)))
    return [1, 0] if first and not images else [0]


def batch_dim(runnable: Runnable) -> int:
    """The dimension along which inputs can be repeated so that the first outputs stay the same."""
    expected = dry_outputs(runnable)
    for dim in batch_dims(runnable):
        try:
            actual = dry_outputs(with_batch(runnable, dim, 2))
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
            continue
        shapes = [tensor.shape for tensor in tensors_in(expected)]
        grown = shapes != [tensor.shape for tensor in tensors_in(actual)]
        if grown and largest_error(*first_rows(expected, actual)) < 1e-2:
            return dim
    raise NotApplicable("the inputs have no batch dimension that can be made larger")


def with_batch(runnable: Runnable, dim: int, times: int) -> Runnable:
    """The same model with inputs repeated `times` times along `dim`."""
    inputs = [tensor for tensor in tensors_in((runnable.args, runnable.kwargs)) if tensor.dim() > dim]
    if not inputs:
        raise NotApplicable("the inputs have no batch dimension that can be made larger")
    repeat = partial(repeated, dim=dim, size=inputs[0].shape[dim], times=times)
    args, kwargs = map_tensors(repeat, (runnable.args, runnable.kwargs))
    return Runnable(runnable.model, args, kwargs, runnable.contexts, runnable.items * times, runnable.compare)


def batch_factors(runnable: Runnable) -> list[int]:
    """How many times as many items per pass are worth trying."""
    return [2, 4, 8, 16]


def batch(runnable: Runnable, value: int = 8) -> Runnable:
    """The model run with `value` times as many items per pass."""
    require_modules(runnable)
    norms = [each for each in runnable.model.modules() if isinstance(each, nn.modules.batchnorm._NormBase)]
    if any(norm.training for norm in norms):
        raise NotApplicable("BatchNorm layers in training mode make outputs depend on the batch")
    changed = with_batch(runnable, batch_dim(runnable), value)
    before = runnable.compare
    changed.compare = first_rows if before is None else lambda a, b: before(*first_rows(a, b))
    return changed


register(
    Change(
        name="batch",
        summary="Run 2, 4, 8 or 16 times as many items per pass; times are per item",
        codes=("C213",),
        effect=ROUNDING,
        apply=batch,
        parts=(*DRY_PASS, repeated, first_rows, batch_dims, batch_dim, with_batch),
        imports=(*DRY_PASS_IMPORTS, "from functools import partial"),
        stage="inputs",
        options=batch_factors,
    )
)
