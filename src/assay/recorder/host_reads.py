"""Recognising ops by which Python reads values of tensors, and the lines of code that cause them.

Nothing is patched for this: below autograd, `.item()`, `bool()`, `.tolist()` and `.numpy()` reach the dispatcher.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

from assay.document.host_reads import BOOL, COPY, ITEM, NUMPY, SIZES, TOLIST

aten = torch.ops.aten

Reads = Callable[[tuple[Any, ...], dict[str, Any], Any, Sequence[str]], str]
"""(args, kwargs, result, targets of the ops before it, the last one last) → what the op reads; empty if nothing."""


def _always(what: str) -> Reads:
    return lambda *_: what


def _masked(args: tuple[Any, ...], *_: Any) -> str:
    masks = [index for index in args[1] if index is not None and index.dtype in (torch.bool, torch.uint8)]
    return SIZES if masks else ""


def _repeated(args: tuple[Any, ...], kwargs: dict[str, Any], *_: Any) -> str:
    return SIZES if kwargs.get("output_size") is None else ""


def _resolved(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, before: Sequence[str]) -> str:
    """`.numpy()` and `.tolist()` resolve conjugation and negation; `.numpy()` moves the tensor to the CPU first."""
    if before[-1:] != ["aten.resolve_conj.default"]:
        return ""
    return NUMPY if before[-2:-1] == ["aten.to.dtype_layout"] else TOLIST


def _moved(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, before: Sequence[str]) -> str:
    return COPY if args[0].device != result.device else ""


def _copied(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, before: Sequence[str]) -> str:
    return COPY if args[1].device != result.device else ""


WATCHED: dict[Any, Reads] = {
    **dict.fromkeys((aten.item.default, aten._local_scalar_dense.default), _always(ITEM)),
    **dict.fromkeys((aten.is_nonzero.default, aten.equal.default, aten.allclose.default), _always(BOOL)),
    **dict.fromkeys(
        (
            aten.nonzero.default, aten.nonzero_numpy.default, aten.argwhere.default, aten.where.default,
            aten.masked_select.default, aten._unique2.default, aten.unique_dim.default,
            aten.unique_consecutive.default,
        ),
        _always(SIZES),
    ),
    aten.index.Tensor: _masked,
    **dict.fromkeys((aten.repeat_interleave.Tensor, aten.repeat_interleave.self_Tensor), _repeated),
    aten.resolve_neg.default: _resolved,
    **dict.fromkeys(
        (aten.to.dtype_layout, aten.to.device, aten.to.dtype, aten.to.other, aten._to_copy.default), _moved
    ),
    aten.copy_.default: _copied,
}  # fmt: skip
"""The ops that may read values, and what decides whether they do."""

_SKIPPED = tuple(
    os.path.join(directory, "")
    for directory in (*torch.__path__, *np.__path__, os.path.dirname(os.path.dirname(__file__)))
)
"""Directories of code that reads values on behalf of its caller."""


def source_line(outermost: CodeType) -> str:
    """The innermost line of code outside torch, NumPy and assay: `my_model.py:42`; empty if there is none.

    The search ends at the frame of `outermost`, outside of which nothing belongs to the model.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not outermost:
        if not frame.f_code.co_filename.startswith(_SKIPPED):
            return f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@lru_cache(1024)
def _short(path: str) -> str:
    """The path relative to the innermost directory of imports, or the working directory; else only the file name."""
    bases = [os.path.join(os.path.abspath(base), "") for base in (os.curdir, *sys.path)]
    base = max((base for base in bases if path.startswith(base)), key=len, default=os.path.dirname(path) + os.sep)
    return path.removeprefix(base).replace(os.sep, "/")
