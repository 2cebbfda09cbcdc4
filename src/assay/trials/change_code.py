"""The source code of changes, as it is copied into scripts and patches."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from assay.trials import runnable as runnable_module
from assay.trials.change import NotApplicable
from assay.trials.runnable import Runnable
from assay.trials.stack import ChangeSpec, parse_spec

_COMMENT = re.compile(r"  # (type: ignore|noqa)[^\n]*")
_ALWAYS = ("import torch", "from torch import nn")


def import_lines(specs: Sequence[str], *modules: Any) -> list[str]:
    """The import lines that these changes, and the code of these modules, need; each once."""
    lines = {*_ALWAYS, *_imports_of(runnable_module)}
    for text in specs:
        change = parse_spec(text).change
        lines.update(change.imports)
    for module in modules:
        lines.update(_imports_of(module))
    return _merged(lines)


def definitions(specs: Sequence[str], *others: Any) -> str:
    """The source of the changes with all that they use, and of other functions and classes."""
    changes = [parse_spec(text).change for text in specs]
    used = [Runnable, NotApplicable, *(each for change in changes for each in (*change.parts, change.apply)), *others]
    return "\n\n\n".join(source_of(each) for each in _each_once(used))


def steps_code(specs: Sequence[str]) -> str:
    """A tuple of the functions of the changes, each with the values it is called with."""
    return "(" + "".join(f"({_name(spec)}, {_values(spec)}), " for spec in map(parse_spec, specs)).strip() + ")"


def source_of(value: Any) -> str:
    """The source of a function or class, without comments for tools."""
    return _COMMENT.sub("", inspect.getsource(value)).rstrip()


def _each_once(values: Iterable[Any]) -> list[Any]:
    """The values without repetitions; two different ones with the same name would hide each other."""
    by_name: dict[str, Any] = {}
    for value in values:
        if by_name.setdefault(value.__name__, value) is not value:
            raise ValueError(f"two parts of changes are named {value.__name__}: rename one of them")
    return list(by_name.values())


def _merged(lines: Iterable[str]) -> list[str]:
    """The import lines in order, with one line per module that names are imported from."""
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.ImportFrom):
            names.setdefault(node.module or "", set()).update(map(ast.unparse, node.names))
        else:
            plain.add(ast.unparse(node))
    return [*sorted(plain), *(f"from {name} import {', '.join(sorted(names[name]))}" for name in sorted(names))]


def _imports_of(module: Any) -> list[str]:
    """The imports of a module, without those of Assay and of `__future__`."""
    lines = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Import) or (
            isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] not in ("assay", "__future__")
        ):
            lines.append(ast.unparse(node))
    return lines


def _name(spec: ChangeSpec) -> str:
    return str(spec.change.apply.__name__)


def _values(spec: ChangeSpec) -> str:
    return f"({spec.value!r},)" if spec.has_value else "()"
