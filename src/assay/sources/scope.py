"""Importing a file from any directory without name clashes: every directory becomes a package of its own.

The files next to it are imported as `__user__.helper`, whether the file has `import helper` or
`from . import helper`. No module is added to `sys.modules` under its plain name, modules of two directories never
clash, and imports that the model executes later, in its forward, still find the files next to it.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


class Folder:
    """A directory whose Python files are imported as submodules of the package `name`."""

    def __init__(self, name: str, root: Path, beside: Path) -> None:
        self.name = name
        self.root = root
        self.beside = beside
        self.stamps: dict[str, tuple[int, int] | None] = {}
        self.builtins = {**vars(builtins), "__import__": self.import_}

    def register(self) -> None:
        """Make the directory's package importable."""
        package = ModuleType(self.name)
        package.__path__ = [str(self.root)]
        package.__spec__ = ModuleSpec(self.name, None, is_package=True)
        sys.modules[self.name] = package

    def is_stale(self) -> bool:
        """Whether a file imported from here has changed since it was imported."""
        return any(_stamp(path) != stamp for path, stamp in self.stamps.items())

    def import_(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """The `__import__` of code in the directory: look for a file in the directory first, then import as usual."""
        top, _, rest = name.partition(".")
        inner = self.sibling(top, (globals or {}).get("__file__")) if level == 0 else None
        if inner is None:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        full = f"{inner}.{rest}" if rest else inner
        if fromlist:
            return builtins.__import__(full, globals, locals, fromlist, 0)
        importlib.import_module(full)
        return sys.modules[inner]

    def sibling(self, top: str, importer: str | None) -> str | None:
        """The full name of the top-level module `top` if it is in this directory, else None."""
        if top in sys.builtin_module_names:
            return None
        for directory in dict.fromkeys((self.beside, self.root)):
            spec = PathFinder.find_spec(top, [str(directory)])
            if spec is None or (spec.origin is not None and spec.origin == importer):
                continue
            # As on sys.path, a real module takes precedence over a directory without __init__.py.
            if spec.origin is None and importlib.util.find_spec(top) is not None:
                continue
            return ".".join((self.name, *directory.relative_to(self.root).parts, top))
        return None


class _Loader(SourceFileLoader):
    """Runs a source file with its directory's `__import__`, without writing bytecode next to it."""

    def __init__(self, fullname: str, path: str, folder: Folder) -> None:
        super().__init__(fullname, path)
        self.folder = folder

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)

    def exec_module(self, module: ModuleType) -> None:
        self.folder.stamps[self.path] = _stamp(self.path)
        vars(module)["__builtins__"] = self.folder.builtins
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """Finds the modules of all directories that were opened."""

    def __init__(self) -> None:
        self.folders: dict[str, Folder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder = self.folders.get(fullname.partition(".")[0])
        if folder is None:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, folder)
        return spec

    def folder(self, root: Path, beside: Path) -> Folder:
        """The `Folder` for `beside`; a new one if any of its files has changed."""
        for folder in reversed(self.folders.values()):
            if (folder.root, folder.beside) == (root, beside) and not folder.is_stale():
                return folder
        number = len(self.folders) + 1
        folder = Folder("__user__" if number == 1 else f"__user_{number}__", root, beside)
        self.folders[folder.name] = folder
        folder.register()
        return folder


_FINDER = _Finder()


def load(file: Path, root: Path, packages: Sequence[str]) -> ModuleType:
    """Import `file`, which is in `packages` below `root`, under a unique module name."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    importlib.invalidate_caches()
    folder = _FINDER.folder(root, file.parent)
    if "." in file.stem:
        return _by_path(file, folder)
    return importlib.import_module(".".join((folder.name, *packages, *own_name(file))))


def own_name(file: Path) -> tuple[str, ...]:
    """The part that `file` adds to its package's dotted name; empty for `__init__.py`."""
    return () if file.stem == "__init__" else (file.stem,)


def _by_path(file: Path, folder: Folder) -> ModuleType:
    """Import a file whose name contains a dot, which an import statement cannot express."""
    name = f"{folder.name}.{file.stem.replace('.', '_')}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file, loader=_Loader(name, str(file), folder))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _stamp(path: str) -> tuple[int, int] | None:
    """Modification time and size of `path`; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
