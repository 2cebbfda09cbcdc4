"""The source text of a module's class and of its `forward`, or why there is none."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from torch import nn

from assay.document.inspection import SourceCode
from assay.errors import ReadError


class _Text(NamedTuple):
    file: str
    line: int
    text: str


def source_of(thing: object) -> SourceCode:
    """The source of the class of `thing`; where there is none, the error says why."""
    cls = type(thing)
    if isinstance(thing, torch.jit.ScriptModule):
        raise ReadError(f"{cls.__name__} is compiled TorchScript: its Python source is not kept")
    whole, why = _text(cls)
    forward, _ = _text(_forward(thing))
    found = whole or forward
    if found is None:
        raise ReadError(f"no source for {cls.__module__}.{cls.__qualname__}: {why}")
    return SourceCode(cls.__name__, *found, *(forward or ("", 0, "")))


def _forward(thing: object) -> Any:
    """The function that runs: of the instance where it was patched there, else of the class."""
    if not isinstance(thing, nn.Module):
        return None
    own = thing.__dict__.get("forward")
    return inspect.getattr_static(type(thing), "forward", None) if own is None else own


def _text(code: Any) -> tuple[_Text | None, str]:
    if code is None:
        return None, "it has none"
    try:
        lines, first = inspect.getsourcelines(code)
        file = inspect.getsourcefile(code) or ""
    except (OSError, TypeError, IndexError, SyntaxError) as error:
        return None, _reason(error)
    return _Text(file, max(first, 1), "".join(lines)), ""


def _reason(error: BaseException) -> str:
    if isinstance(error, TypeError):
        return "it is built in, or was made where there is no file"
    return f"{error}; it was typed in, executed from a string or its file is gone"
