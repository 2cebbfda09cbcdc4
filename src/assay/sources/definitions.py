"""Where the code that builds a model is: the file, and the line of the function. The file is parsed, not run."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import NamedTuple

from assay.sources.specifier import file_function


class SourceLine(NamedTuple):
    """A file, and a line in it if it is known."""

    path: str
    line: int | None = None


def source_line(location: str) -> SourceLine | None:
    """The file and line of a model given as `file.py:function` or as a path; None if there is no such local file."""
    named = file_function(location)
    path = named.where if named is not None else location
    if os.path.isdir(path) and os.path.isfile(os.path.join(path, "config.json")):
        path = os.path.join(path, "config.json")
    if "\0" in path or not os.path.isfile(path):
        return None
    return SourceLine(path, definition_line(Path(path), named.name) if named is not None else None)


def definition_line(path: Path, name: str) -> int | None:
    """The 1-based line on which the file defines `name` at its top level; None if it is not found."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return None
    first = name.partition(".")[0]
    return next((statement.lineno for statement in body if first in _names(statement)), None)


def _names(statement: ast.stmt) -> set[str]:
    """The names that a statement defines."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}
