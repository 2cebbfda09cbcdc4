"""The source text of a module's class and of its `forward`, or why there is none."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from assay.document.inspection import SourceCode
from assay.errors import ReadError


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


def _text(code: Any) -> tuple[tuple[str, int, str] | None, str]:
    """The file, the line there and the text of `code`; else None, and why."""
    if code is None:
        return None, "it has none"
    try:
        lines, first = inspect.getsourcelines(code)
        file = inspect.getsourcefile(code) or ""
    except TypeError:
        return None, "it is built in, or was made where there is no file"
    except (OSError, IndexError, SyntaxError) as error:
        return None, f"{error}; it was typed in, executed from a string or its file is gone"
    return (file, max(first, 1), "".join(lines)), ""
