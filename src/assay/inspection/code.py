"""The source code of a module's class and of its `forward`, or the reason why there is none."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from assay.document.inspection import SourceCode
from assay.errors import ReadError
from assay.sources.torchscript.modules import InterpretedModule, main_method


def source_of(value: object) -> SourceCode:
    """The source code of the class of `value`; a ReadError with the reason if there is none."""
    cls = type(value)
    if isinstance(value, InterpretedModule):
        return _of_file(value)
    if isinstance(value, torch.jit.ScriptModule):
        raise ReadError(f"{cls.__name__} is compiled TorchScript, which does not keep its Python source")
    whole, why = _text(cls)
    forward, _ = _text(_forward(value))
    source = whole or forward
    if source is None:
        raise ReadError(f"no source code for {cls.__module__}.{cls.__qualname__}: {why}")
    return SourceCode(cls.__name__, *source, *(forward or ("", 0, "")))


def _of_file(module: InterpretedModule) -> SourceCode:
    """The code of a TorchScript file; the file named is the member of the archive."""
    cls = module.script_class
    name = cls.original_name.rpartition(".")[2]
    forward = cls.methods.get(main_method(cls))
    own = ("", 0, "") if forward is None else (cls.source.place, forward.node.lineno, cls.source.lines(forward.node))
    return SourceCode(name, cls.source.place, cls.node.lineno, cls.source.lines(cls.node), *own)


def _forward(value: object) -> Any:
    """The `forward` function that runs: the instance's if it was patched there, else the class's."""
    if not isinstance(value, nn.Module):
        return None
    own = value.__dict__.get("forward")
    return inspect.getattr_static(type(value), "forward", None) if own is None else own


def _text(code: Any) -> tuple[tuple[str, int, str] | None, str]:
    """The file, first line and text of `code` with an empty string, or None with the reason."""
    if code is None:
        return None, "it does not exist"
    try:
        lines, first = inspect.getsourcelines(code)
        file = inspect.getsourcefile(code) or ""
    except TypeError:
        return None, "it is built in or was not defined in a file"
    except (OSError, IndexError, SyntaxError) as error:
        return None, f"{error} (defined interactively, in a string, or in a file that no longer exists)"
    return (file, max(first, 1), "".join(lines)), ""
