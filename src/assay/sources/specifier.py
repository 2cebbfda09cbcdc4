"""What a string can mean where a model or inputs are wanted: a function in a file, a callable, a path."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from assay.errors import ReadError, UsageError
from assay.messages import brief

_FILE = re.compile(r"(?P<file>.+\.py)::?(?P<name>[^:/\\]+)", re.DOTALL)
_PACKAGE = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)")
_PATH_LIMIT = 4096
"""Longer than any path an operating system takes."""


@dataclass(frozen=True)
class Named:
    """A callable by name: in a file, or in an importable module."""

    where: str
    """The file as the user wrote it, or the module."""
    name: str
    in_file: bool

    @property
    def location(self) -> str:
        """`my_model.py:load_model`."""
        return f"{self.where}:{self.name}"

    @property
    def label(self) -> str:
        """`load_model() in my_model.py`."""
        return f"{brief(self.name)}() in {brief(self.where)}"


def file_function(text: str) -> Named | None:
    """The function in a file that `text` names, if that is its form; what we print ourselves is one too."""
    match = _FILE.fullmatch(text)
    return Named(match["file"], match["name"], in_file=True) if match else None


def parse(text: str) -> Named | Path:
    """The callable or the existing path that `text` names."""
    if not text.strip():
        raise UsageError("no model was given: name a file.py::function, package.module:callable, folder or file")
    if "\0" in text:
        raise UsageError(f"{brief(text)} contains a NUL byte: no file or module is called that")
    named = file_function(text)
    if named is not None:
        return named
    if len(text) <= _PATH_LIMIT and os.path.exists(text):
        if text.endswith(".py"):
            raise UsageError(f"{brief(text)} names no function: write {brief(text)}::load_model, say")
        return Path(text)
    match = _PACKAGE.fullmatch(text)
    if match:
        return Named(match["module"], match["name"], in_file=False)
    raise ReadError(
        f"there is no file or folder {brief(text)}: give file.py::function, package.module:callable, "
        "a folder with config.json, or a model file"
    )


def existing_file(where: str) -> Path:
    """The Python file `where`, or an error that says it is not there."""
    if "\0" in where:
        raise UsageError(f"{brief(where)} contains a NUL byte: no file is called that")
    if len(where) > _PATH_LIMIT or not os.path.isfile(where):
        raise ReadError(f"there is no file {brief(where)}")
    return Path(where)
