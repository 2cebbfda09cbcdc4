"""Importing user code: changes to sys.path and sys.modules while it is imported, undone afterwards."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from assay.sources import scope

_imported: dict[str, set[str]] = {}
"""Names of the modules imported from each current directory, by directory."""


@contextlib.contextmanager
def file_module(path: Path) -> Iterator[ModuleType]:
    """The module in the file `path`; inside the block, files next to it can be imported by name too."""
    file = path.resolve()
    packages = _packages(file.parent)
    root = file.parents[len(packages)]
    on_path = {os.path.realpath(entry) for entry in sys.path}
    with current_directory(first=False), folders_on_path([file.parent, root]):
        if packages and str(root) in on_path:
            # An installed package keeps its name, because a second copy would register its operators twice.
            yield importlib.import_module(".".join((*packages, *scope.own_name(file))))
        else:
            yield scope.load(file, root, packages)


@contextlib.contextmanager
def folders_on_path(directories: Sequence[Path]) -> Iterator[None]:
    """Append `directories` to sys.path inside the block; afterwards unload the modules imported from them."""
    with _path([str(directory) for directory in directories], first=False) as entries:
        before = set(sys.modules)
        try:
            yield
        finally:
            _unload(_imported_from(entries, set(sys.modules) - before))


@contextlib.contextmanager
def current_directory(*, first: bool = True) -> Iterator[None]:
    """Have the current directory on sys.path inside the block; modules of previous directories are unloaded."""
    here = os.path.realpath(os.curdir)
    for directory in [directory for directory in _imported if directory != here]:
        _unload(_imported.pop(directory))
    with _path([here], first=first) as entries:
        importlib.invalidate_caches()
        before = set(sys.modules)
        try:
            yield
        finally:
            _imported.setdefault(here, set()).update(_imported_from(entries, set(sys.modules) - before))


@contextlib.contextmanager
def _path(entries: list[str], *, first: bool) -> Iterator[list[str]]:
    """Add the missing `entries` to sys.path inside the block and yield them; the user's own changes to it stay."""
    added = [entry for entry in dict.fromkeys(entries) if entry not in sys.path]
    sys.path[:] = [*added, *sys.path] if first else [*sys.path, *added]
    try:
        yield added
    finally:
        for entry in added:
            if entry in sys.path:
                sys.path.remove(entry)


def _imported_from(entries: Sequence[str], names: set[str]) -> set[str]:
    """Those of `names` whose top-level module was imported from one of `entries`."""
    tops = {name for name in names if "." not in name and _entry(sys.modules.get(name)) in entries}
    return {name for name in names if name.partition(".")[0] in tops}


def _unload(names: set[str]) -> None:
    """Remove these modules from sys.modules."""
    for name in names:
        sys.modules.pop(name, None)


def _entry(module: ModuleType | None) -> str | None:
    """The sys.path entry that a top-level module was imported from; None if it has no file."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    parent, name = os.path.split(file)
    return os.path.dirname(parent) if name == "__init__.py" else parent


def _packages(directory: Path) -> tuple[str, ...]:
    """The names of the nested packages that `directory` belongs to, outermost first."""
    names: list[str] = []
    while (directory / "__init__.py").is_file() and directory.name.isidentifier():
        names.insert(0, directory.name)
        directory = directory.parent
    return tuple(names)
