"""Importing what a specifier names: load its module, find the attribute, and keep its own imports working."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from assay.errors import ReadError, UserCodeError
from assay.messages import name_suggestion, one_line
from assay.sources.importing import current_directory, file_module
from assay.sources.needs import is_module
from assay.sources.specifier import Named, existing_file
from assay.sources.usercode import guarded

_MISSING = object()


@contextlib.contextmanager
def attribute(named: Named) -> Iterator[Any]:
    """The function, class or value that `named` refers to; inside the block its own imports work."""
    with _module(named) as module:
        target: Any = module
        for part in named.name.split("."):
            with guarded(f"reading {one_line(named.name)} in {one_line(named.where)}"):
                target, owner = getattr(target, part, _MISSING), target
            if target is _MISSING:
                hint = name_suggestion(part, _callables(owner), listing=named.in_file)
                raise ReadError(f"{one_line(named.where)} has no {one_line(named.name)!r}: {hint}")
        yield target


@contextlib.contextmanager
def _module(named: Named) -> Iterator[ModuleType]:
    """The imported module that contains `named`; raises `ReadError` if it does not exist."""
    opening = file_module(existing_file(named.where)) if named.in_file else _package(named.where)
    with contextlib.ExitStack() as stack:
        try:
            with guarded(f"importing {one_line(named.where)}"):
                module = stack.enter_context(opening)
        except UserCodeError as error:
            if named.in_file or not _is_absent(named.where, error.__cause__):
                raise
            raise ReadError(
                f"there is no module {one_line(named.where)} in the current directory or on the Python path: "
                "check its name, or give file.py::function"
            ) from error
        yield module


def _is_absent(name: str, error: BaseException | None) -> bool:
    """Whether the import failed because module `name` itself, or a package that contains it, does not exist."""
    return isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")


@contextlib.contextmanager
def _package(name: str) -> Iterator[ModuleType]:
    """The module `name`, imported from the current directory or the Python path."""
    with current_directory():
        yield importlib.import_module(name)


def _callables(owner: Any) -> list[str]:
    """The public names in `owner` that can be called; those defined in `owner` itself come first."""
    home = getattr(owner, "__name__", None)
    public = {
        name: getattr(value, "__module__", home) != home
        for name, value in getattr(owner, "__dict__", {}).items()
        if not name.startswith("_") and (is_module(value) or callable(value))
    }
    return sorted(public, key=lambda name: (public[name], name))
