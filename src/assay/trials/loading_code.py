"""Python code that loads a model and makes its inputs without Assay, for scripts and patches."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from assay.errors import UsageError
from assay.messages import one_line, type_name
from assay.sources.opened import Opened
from assay.sources.specifier import Named, file_function, parse

_LISTED = 64
"""Tensors with at most this many elements are written out."""
_GIVE_FUNCTION = "give them with --inputs file.py::function"


def model_code(opened: Opened, source: Any, model_args: Mapping[str, Any] | None, folder: Path) -> str:
    """An expression that loads the model; paths are relative to `folder`, which is called `HERE`."""
    if not isinstance(source, (str, os.PathLike)):
        raise UsageError("a script cannot load a model that exists only in memory: give it as file.py::function")
    kind = opened.origin.kind
    parsed = parse(os.fspath(source))
    if isinstance(parsed, Named):
        return f"built({_attribute(parsed, folder)}, {_literal(dict(model_args or {}), 'the model arguments')})"
    if kind not in _FILES:
        raise UsageError(f"a script cannot load {one_line(source)}: give the model as file.py::function")
    return _FILES[kind](opened, f"str({_path(parsed, folder)})")


def inputs_code(inputs: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], folder: Path) -> str:
    """An expression that makes the arguments: a call of the user's function, or values like those given."""
    named = file_function(inputs) if isinstance(inputs, str) else None
    if named is not None:
        target = _attribute(named, folder)
        return f"call_arguments({target}())"
    return f"({value_code(tuple(args))}, {value_code(dict(kwargs))})"


def value_code(value: Any) -> str:
    """An expression for a value; a large tensor becomes random values of its shape, dtype and range."""
    if isinstance(value, torch.Tensor):
        return _tensor_code(value)
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {value_code(each)}" for key, each in value.items()) + "}"
    if type(value) is tuple:
        return "(" + "".join(f"{value_code(each)}, " for each in value).strip() + ")"
    if type(value) is list:
        return "[" + ", ".join(map(value_code, value)) + "]"
    raise UsageError(f"inputs of type {type_name(value)} cannot be written into a script: {_GIVE_FUNCTION}")


def _tensor_code(tensor: torch.Tensor) -> str:
    shape, dtype = tuple(tensor.shape), str(tensor.dtype)
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_complex() or tensor.is_quantized:
        raise UsageError(f"this kind of tensor cannot be written into a script: {_GIVE_FUNCTION}")
    if tensor.numel() <= _LISTED and not tensor.is_meta:
        return f"torch.tensor({_listed(tensor)}, dtype={dtype}).reshape({shape})"
    if tensor.is_floating_point():
        return f"torch.randn({shape}, generator=GENERATOR).to({dtype})"
    low, high = int(tensor.min()), int(tensor.max())
    if low == high:
        return f"torch.full({shape}, {bool(low) if tensor.dtype is torch.bool else low}, dtype={dtype})"
    if torch.equal(tensor, torch.arange(shape[-1], device=tensor.device).expand(shape).to(tensor.dtype)):
        return f"torch.arange({shape[-1]}, dtype={dtype}).repeat{(*shape[:-1], 1)}"
    return f"torch.randint({low}, {high + 1}, {shape}, generator=GENERATOR).to({dtype})"


def _listed(tensor: torch.Tensor) -> str:
    items = [str(each) for each in tensor.flatten().tolist()]
    return "[" + ", ".join(f'float("{each}")' if each in ("inf", "-inf", "nan") else each for each in items) + "]"


def _attribute(named: Named, folder: Path) -> str:
    if named.in_file:
        return f"from_file({_path(Path(named.where), folder)}, {named.name!r})"
    return f"from_module({named.where!r}, {named.name!r})"


def _path(path: Path, folder: Path) -> str:
    return f"(HERE / {os.path.relpath(path.resolve(), folder.resolve())!r}).resolve()"


def _literal(value: Any, what: str) -> str:
    """The code of a value made of Python literals; a UsageError if it is not."""
    text = repr(value)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise UsageError(f"{what} cannot be written into a script: {one_line(text, 80)}; use numbers, text and lists")
    return text


def _config_code(opened: Opened, path: str) -> str:
    kind = type(opened.module)
    if not kind.__module__.startswith("transformers.models."):
        raise UsageError("a script cannot load a model whose code is stored with its config: give file.py::function")
    name = f"transformers.{kind.__name__}"
    if opened.load is not None:
        return f"{name}.from_pretrained({path}, local_files_only=True)"
    return f"{name}(transformers.AutoConfig.from_pretrained({path}, local_files_only=True))"


_FILES: dict[str, Callable[[Opened, str], str]] = {
    "config": _config_code,
    "exported": lambda opened, path: f"torch.export.load({path}).module()",
    "scripted": lambda opened, path: f"torch.jit.load({path}, map_location='cpu')",
    "pickled": lambda opened, path: f"torch.load({path}, map_location='cpu', weights_only=False)",
}
"""The code that loads each kind of file, by `Origin.kind`."""
