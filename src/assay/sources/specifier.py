"""Parsing the string for a model or its inputs: a function in a file, an importable name, or a path."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from assay.errors import ReadError, UsageError
from assay.messages import one_line

_FILE = re.compile(r"(?P<file>.+\.py)::?(?P<name>[^:/\\]+)", re.DOTALL)
_PACKAGE = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)")
_PATH_LIMIT = 4096
"""A text longer than this is not checked as a path: no operating system accepts longer ones."""


@dataclass(frozen=True)
class Named:
    """The name of a callable in a file or in an importable module."""

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
        return f"{one_line(self.name)}() in {one_line(self.where)}"


def file_function(text: str) -> Named | None:
    """The function that `text` names in the form `file.py::name` or `file.py:name` (as printed), else None."""
    match = _FILE.fullmatch(text)
    return Named(match["file"], match["name"], in_file=True) if match else None


def parse(text: str) -> Named | Path:
    """The callable or the existing path that `text` names."""
    if not text.strip():
        raise UsageError("no model was given: expected file.py::function, package.module:callable, directory or file")
    if "\0" in text:
        raise UsageError(f"{one_line(text)} contains a NUL byte, which no file or module name can have")
    named = file_function(text)
    if named is not None:
        return named
    if len(text) <= _PATH_LIMIT and os.path.exists(text):
        if text.endswith(".py"):
            raise UsageError(f"{one_line(text)} names no function; for example {one_line(text)}::load_model")
        return Path(text)
    match = _PACKAGE.fullmatch(text)
    if match:
        return Named(match["module"], match["name"], in_file=False)
    raise ReadError(
        f"no such file or directory: {one_line(text)} (expected file.py::function, package.module:callable, "
        "a directory with config.json, or a model file)"
    )


def existing_file(where: str) -> Path:
    """The path of the Python file `where`; raises `ReadError` if it does not exist."""
    if "\0" in where:
        raise UsageError(f"{one_line(where)} contains a NUL byte, which no file name can have")
    if len(where) > _PATH_LIMIT or not os.path.isfile(where):
        raise ReadError(f"no such file or directory: {one_line(where)}")
    return Path(where)
