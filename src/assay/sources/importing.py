"""What user code can import while it is opened, and what is undone afterwards."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from assay.sources import scope

_kept: dict[str, set[str]] = {}
"""The modules imported by their plain name from a current directory, by that directory."""


@contextlib.contextmanager
def file_module(path: Path) -> Iterator[ModuleType]:
    """The module in the file `path`; in the block, what lies beside it can be imported by name too."""
    file = path.resolve()
    packages = _packages(file.parent)
    root = file.parents[len(packages)]
    on_path = {os.path.realpath(entry) for entry in sys.path}
    with current_directory(first=False), beside([file.parent, root]):
        if packages and str(root) in on_path:
            # Installed packages keep their name: a second copy would register its operators twice.
            yield importlib.import_module(".".join((*packages, *scope.own_name(file))))
        else:
            yield scope.load(file, root, packages)


@contextlib.contextmanager
def beside(directories: Sequence[Path]) -> Iterator[None]:
    """Have `directories` last on sys.path for a while, and forget what came from there by a plain name."""
    with _path([str(directory) for directory in directories], first=False) as entries:
        before = set(sys.modules)
        try:
            yield
        finally:
            _forget(_found_in(entries, set(sys.modules) - before))


@contextlib.contextmanager
def current_directory(*, first: bool = True) -> Iterator[None]:
    """Have the current directory on sys.path for a while; modules of an earlier one are forgotten."""
    here = os.path.realpath(os.curdir)
    for directory in [known for known in _kept if known != here]:
        _forget(_kept.pop(directory))
    with _path([here], first=first) as entries:
        importlib.invalidate_caches()
        before = set(sys.modules)
        try:
            yield
        finally:
            _kept.setdefault(here, set()).update(_found_in(entries, set(sys.modules) - before))


@contextlib.contextmanager
def _path(entries: list[str], *, first: bool) -> Iterator[list[str]]:
    """sys.path with those of `entries` it lacks, which are yielded; the user's own changes to it stay."""
    added = [entry for entry in dict.fromkeys(entries) if entry not in sys.path]
    sys.path[:] = [*added, *sys.path] if first else [*sys.path, *added]
    try:
        yield added
    finally:
        for entry in added:
            if entry in sys.path:
                sys.path.remove(entry)


def _found_in(entries: Sequence[str], names: set[str]) -> set[str]:
    """Those of `names` whose top-level module lies directly in one of `entries`."""
    tops = {name for name in names if "." not in name and _entry(sys.modules.get(name)) in entries}
    return {name for name in names if name.partition(".")[0] in tops}


def _forget(names: set[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)


def _entry(module: ModuleType | None) -> str | None:
    """The sys.path entry through which a top-level module was found."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    parent, name = os.path.split(file)
    return os.path.dirname(parent) if name == "__init__.py" else parent


def _packages(directory: Path) -> tuple[str, ...]:
    """The packages that `directory` is in, outermost first."""
    names: list[str] = []
    while (directory / "__init__.py").is_file() and directory.name.isidentifier():
        names.insert(0, directory.name)
        directory = directory.parent
    return tuple(names)
