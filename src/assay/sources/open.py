"""The one door: whatever stands for a model is recognised here, once, and opened the same way everywhere.

What is given may be a live module, an object or container that holds modules, a live exported program, something
that builds a model, `file.py::function`, `package.module:name`, a folder with a config, a checkpoint (file, folder or
URL), TorchScript, a pickled module, a `.pt2` file or a saved document.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from assay.checkpoint.remote import is_url
from assay.document.document import Document, Origin
from assay.errors import AssayError, ReadError, UsageError
from assay.messages import brief, kind_name
from assay.sources.holders import roots
from assay.sources.named import attribute
from assay.sources.needs import is_module, is_tensor, need
from assay.sources.opened import Model, Opened, not_run, own_config
from assay.sources.paths import open_path
from assay.sources.specifier import Named, parse
from assay.sources.usercode import call


def open_source(given: Any, *, model_args: Mapping[str, Any] | None = None, trust: bool = False) -> Opened:
    """What `given` stands for. Nothing from a file runs unless `trust` is set."""
    if isinstance(given, Opened):
        return given
    _check_args(model_args)
    if isinstance(given, (str, os.PathLike)) and isinstance(os.fspath(given), str):
        return _open_text(os.fspath(given), model_args, trust=trust)
    if is_maker(given):
        name = getattr(given, "__qualname__", type(given).__name__)
        made = call(given, f"{name}()", model_args, hint=_HINT)
        return _in_memory(made, Origin("live", _qualified(given), name), f"{name}() returned")
    _refuse_args(model_args, "an object that exists already")
    origin = Origin("live", _qualified(type(given)), type(given).__name__)
    return _in_memory(given, origin, "cannot open", refusal=UsageError)


def is_maker(given: Any) -> bool:
    """Whether calling `given` makes a model: a class, a function, or another callable that holds no modules."""
    if isinstance(given, type) or inspect.isroutine(given):
        return True
    return callable(given) and not is_module(given) and not roots(given)


def _open_text(text: str, model_args: Mapping[str, Any] | None, *, trust: bool) -> Opened:
    place = text if is_url(text) else parse(text)
    if isinstance(place, Named):
        return _open_named(place, model_args)
    _refuse_args(model_args, brief(text))
    return open_path(str(place), trust=trust)


def _open_named(named: Named, model_args: Mapping[str, Any] | None) -> Opened:
    need("torch")
    origin = Origin("file" if named.in_file else "package", named.location, named.name)
    label = named.label.replace("()", "")
    with attribute(named) as target:
        if is_maker(target):
            made = call(target, named.label, model_args, hint=_HINT)
            return _in_memory(made, origin, f"{named.label} returned")
        _refuse_args(model_args, f"{label}, an object that exists already,")
        return _in_memory(target, origin, f"{label} is")


_HINT = ", give them as --model-args (model_args)"


def _in_memory(value: Any, origin: Origin, what: str, refusal: type[AssayError] = ReadError) -> Opened:
    """A module, an exported program, a document, or an object that holds modules."""
    if isinstance(value, Document):
        return Opened(value.origin, partial(not_run, value.origin), saved=lambda: value)
    model = _model_of(value)
    if model is None:
        shown = "" if value is None else f" ({brief(repr(value), 60)})"
        raise refusal(f"{what} {_article(kind_name(value))}{shown}: expected {_expected(value)}")
    return Opened(origin, lambda: model)


def _expected(value: Any) -> str:
    if isinstance(value, Mapping) and any(is_tensor(each) for each in value.values()):
        return "a model; of a state dict, save it and give the file, or load it into its module"
    return "a torch.nn.Module, an object that holds modules, a function that builds one, a path, URL or document"


def _model_of(value: Any) -> Model | None:
    if is_module(value):
        return Model(value, own_config(value))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.export.ExportedProgram):
        from assay.sources.exported.run import model_of

        return model_of(value)
    held = roots(value)
    if not held:
        return None
    outer = need("torch").nn.Module()
    # Straight into the dictionary: add_module refuses dots, and none of the modules may notice.
    outer._modules.update(held)
    return Model(outer, holder=value)


def _check_args(model_args: Mapping[str, Any] | None) -> None:
    if model_args is None:
        return
    if not isinstance(model_args, Mapping) or not all(isinstance(name, str) for name in model_args):
        raise UsageError(f"model args must map names to values, got {brief(repr(model_args))}")


def _refuse_args(model_args: Mapping[str, Any] | None, what: str) -> None:
    if model_args:
        raise UsageError(f"model args ({brief(', '.join(model_args))}) were given, but {what} takes none")


def _article(name: str) -> str:
    return name if name == "None" else f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _qualified(value: Any) -> str:
    """Where a class or function is defined: `torch.nn.modules.linear.Linear`."""
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
