"""The single entry point for opening models: every command and every API function opens a model here.

A model can be given as a live module, an object or container with modules inside, a live exported program, a callable
that builds a model, `file.py::function`, `package.module:name`, a directory with a config, a checkpoint (file,
directory or URL), a state dict, TorchScript, a pickled module, a `.pt2` file or a saved document.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any

from assay.checkpoint.remote import is_url
from assay.document.document import Document, Origin
from assay.errors import AssayError, ReadError, UsageError
from assay.messages import one_line, type_name
from assay.sources.holders import outermost_modules
from assay.sources.named import attribute
from assay.sources.needs import is_module, need
from assay.sources.opened import Model, Opened, own_config, raise_no_model, raise_not_run, with_article
from assay.sources.paths import open_path
from assay.sources.specifier import Named, parse
from assay.sources.state_dict import tensors_in
from assay.sources.usercode import call


def open_source(source: Any, *, model_args: Mapping[str, Any] | None = None, trust: bool = False) -> Opened:
    """Recognise and open the model `source`. No code from a file runs unless `trust` is set."""
    if isinstance(source, Opened):
        return source
    _check_args(model_args)
    if isinstance(source, (str, os.PathLike)) and isinstance(os.fspath(source), str):
        return _open_text(os.fspath(source), model_args, trust=trust)
    if is_builder(source):
        name = getattr(source, "__qualname__", type(source).__name__)
        value = call(source, f"{name}()", model_args, hint=_HINT)
        return _in_memory(value, Origin("live", _qualified(source), name), f"{name}() returned")
    _reject_args(model_args, "an existing object")
    origin = Origin("live", _qualified(type(source)), type(source).__name__)
    return _in_memory(source, origin, "cannot open", refusal=UsageError)


def is_builder(source: Any) -> bool:
    """Whether calling `source` builds a model: a class, a function, or another callable without modules inside."""
    if isinstance(source, type) or inspect.isroutine(source):
        return True
    return callable(source) and not _is_program(source) and not outermost_modules(source)


def _open_text(text: str, model_args: Mapping[str, Any] | None, *, trust: bool) -> Opened:
    parsed = text if is_url(text) else parse(text)
    if isinstance(parsed, Named):
        return _open_named(parsed, model_args)
    _reject_args(model_args, one_line(text))
    return open_path(str(parsed), trust=trust)


def _open_named(named: Named, model_args: Mapping[str, Any] | None) -> Opened:
    need("torch")
    origin = Origin("file" if named.in_file else "package", named.location, named.name)
    label = named.label.replace("()", "")
    with attribute(named) as target:
        if is_builder(target):
            value = call(target, named.label, model_args, hint=_HINT)
            return _in_memory(value, origin, f"{named.label} returned")
        _reject_args(model_args, f"{label}, an existing object,")
        return _in_memory(target, origin, f"{label} is")


_HINT = ": give them with --model-args (model_args= in Python)"


def _in_memory(value: Any, origin: Origin, what: str, refusal: type[AssayError] = ReadError) -> Opened:
    """Open an object in memory: a module, exported program, document, object with modules inside, or state dict.

    `what` begins the error message for any other object: "cannot open", "load() returned" or "name in file.py is".
    """
    if isinstance(value, Document):
        return Opened(value.origin, partial(raise_not_run, value.origin), saved=lambda: value)
    model = _model_of(value)
    state = tensors_in(value) if model is None and isinstance(value, Mapping) else {}
    if state:
        return Opened(origin, partial(raise_no_model, type(value).__name__), state=state)
    if model is None and isinstance(value, ModuleType):
        not_a_model = "is a Python module, not a torch.nn.Module or a function that builds one"
        raise refusal(f"{one_line(value.__name__)} {not_a_model}: name a class or function in it")
    if model is None:
        text = "" if value is None else f" ({one_line(repr(value), 60)})"
        expected = _ANY_SOURCE if refusal is UsageError else _IN_MEMORY
        raise refusal(f"{what} {with_article(type_name(value))}{text}: expected {expected}")
    return Opened(origin, lambda: model)


_ANY_SOURCE = (
    "a torch.nn.Module, a function that builds one, an object with modules inside, a state dict, or a path, URL or "
    "document"
)
_IN_MEMORY = "a torch.nn.Module, an exported program, an object with modules inside, a state dict, or a document"


def _model_of(value: Any) -> Model | None:
    """The model that `value` is or contains; None if there is no module in it."""
    if is_module(value):
        return Model(value, own_config(value))
    if _is_program(value):
        from assay.sources.exported.run import model_of

        return model_of(value)
    modules = outermost_modules(value)
    if not modules:
        return None
    outer = need("torch").nn.Module()
    # Written directly to the dictionary: add_module rejects dots, and user code must not be called.
    outer._modules.update(modules)
    return Model(outer, holder=value)


def _is_program(value: Any) -> bool:
    """Whether `value` is a live `torch.export.ExportedProgram`."""
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(value, export.ExportedProgram)


def _check_args(model_args: Mapping[str, Any] | None) -> None:
    if model_args is None:
        return
    if not isinstance(model_args, Mapping) or not all(isinstance(name, str) for name in model_args):
        raise UsageError(f"model args must be a mapping from names to values, got {one_line(repr(model_args))}")


def _reject_args(model_args: Mapping[str, Any] | None, what: str) -> None:
    if model_args:
        names = one_line(", ".join(model_args))
        raise UsageError(f"model args ({names}) were given, but {what} takes no arguments: remove them")


def _qualified(value: Any) -> str:
    """Where a class or function is defined: `torch.nn.modules.linear.Linear`."""
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
