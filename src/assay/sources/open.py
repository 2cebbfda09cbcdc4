"""The door: whatever stands for a model, opened the same way everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.document.document import Document, Origin
from assay.document.files import load
from assay.errors import ReadError, UsageError
from assay.messages import brief, kind_name
from assay.sources import config as configs
from assay.sources import stored
from assay.sources.kinds import kind_of
from assay.sources.named import attribute
from assay.sources.needs import is_module, need
from assay.sources.specifier import Named, parse
from assay.sources.usercode import call


@dataclass(frozen=True)
class Opened:
    """What a source yields: a module to run, or a document where that is all there is."""

    origin: Origin
    module: Any | None
    document: Document | None
    config: Any | None = None
    """The transformers config, where there is one."""
    weights: str = "real"
    """`real`, or `meta` where parameters are on the meta device."""


def open_model(model: Any, *, model_args: Mapping[str, Any] | None = None, trust: bool = False) -> Opened:
    """The model that `model` stands for: a module, what makes one, or a name of either, a folder or file."""
    _check_args(model_args)
    if is_module(model):
        _refuse_args(model_args, "a module that exists already")
        return _with_module(Origin("live", _qualified(type(model)), type(model).__name__), model)
    if isinstance(model, (str, os.PathLike)):
        place = parse(os.fspath(model)) if isinstance(os.fspath(model), str) else None
        if isinstance(place, Named):
            return _open_named(place, model_args)
        if place is not None:
            return _open_path(place, model_args, trust=trust)
    if callable(model):
        name = getattr(model, "__qualname__", type(model).__name__)
        return _with_module(Origin("live", _qualified(model), name), _make(model, f"{name}()", model_args))
    raise UsageError(
        f"cannot open a {kind_name(model)}: give a torch.nn.Module, a callable that makes one, or a name"
    )


def _open_named(named: Named, model_args: Mapping[str, Any] | None) -> Opened:
    need("torch")
    origin = Origin("file" if named.in_file else "package", named.location, named.name)
    with attribute(named) as target:
        return _with_module(origin, _make(target, named.label, model_args))


def _make(target: Any, label: str, model_args: Mapping[str, Any] | None) -> Any:
    """The module that `target` is or makes."""
    if is_module(target):
        _refuse_args(model_args, label.replace("()", "") + ", a module that exists already")
        return target
    if not callable(target):
        raise ReadError(f"{label.replace('()', '')} is a {kind_name(target)}: a function, class or module was wanted")
    made = call(target, label, model_args, hint=", give them as --model-args (model_args)")
    if not is_module(made):
        raise ReadError(f"{label} returned {kind_name(made)}: a torch.nn.Module was wanted")
    return made


def _open_path(path: Path, model_args: Mapping[str, Any] | None, *, trust: bool) -> Opened:
    _refuse_args(model_args, brief(path))
    kind = "config" if path.is_dir() else kind_of(path)
    return _READERS[kind](path, kind, trust)


def _read_config(path: Path, kind: str, trust: bool) -> Opened:
    module, config = configs.build(path, trust=trust)
    return _with_module(Origin(kind, str(path), path.resolve().name), module, config)


def _read_document(path: Path, kind: str, trust: bool) -> Opened:
    return Opened(Origin(kind, str(path), path.name), None, load(path))


def _read_exported(path: Path, kind: str, trust: bool) -> Opened:
    from assay.sources.exported import read as exported

    return Opened(Origin(kind, str(path), path.name), None, exported.read(path))


def _read_stored(path: Path, kind: str, trust: bool) -> Opened:
    shown = "scripted" if kind == "scripted" else "pickled"
    return _with_module(Origin(shown, str(path), path.name), stored.read(path, kind, trust=trust))


_READERS: dict[str, Callable[[Path, str, bool], Opened]] = {
    "config": _read_config,
    "document": _read_document,
    "exported": _read_exported,
    "scripted": _read_stored,
    "saved": _read_stored,
    "pickled": _read_stored,
}


def _with_module(origin: Origin, module: Any, config: Any | None = None) -> Opened:
    on_meta = any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))
    own = vars(module).get("config")
    if config is None and hasattr(own, "model_type") and hasattr(own, "to_dict"):
        config = own
    return Opened(origin, module, None, config, "meta" if on_meta else "real")


def _check_args(model_args: Mapping[str, Any] | None) -> None:
    if model_args is None:
        return
    if not isinstance(model_args, Mapping) or not all(isinstance(name, str) for name in model_args):
        raise UsageError(f"model args must map names to values, got {brief(repr(model_args))}")


def _refuse_args(model_args: Mapping[str, Any] | None, what: str) -> None:
    if model_args:
        raise UsageError(f"model args ({brief(', '.join(model_args))}) were given, but {what} takes none")


def _qualified(value: Any) -> str:
    """Where a class or function is defined: `torch.nn.modules.linear.Linear`."""
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
