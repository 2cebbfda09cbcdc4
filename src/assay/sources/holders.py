"""The modules of a model, or of an object that holds several, by path; nothing of it is executed.

A pipeline is walked through its attributes, lists and dictionaries as far as `_DEEPEST` steps, reading what is
stored and never a property.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assay.sources.needs import is_module, is_tensor

if TYPE_CHECKING:
    from torch import nn

_DEEPEST = 3
_MOST = 10_000
"""Objects outside modules that are looked at."""
_NO_CONTAINERS = (type, types.ModuleType, types.FunctionType, types.MethodType, str, bytes, int, float)


def roots(holder: object) -> list[tuple[str, nn.Module]]:
    """The outermost modules with their paths; a module is its own root, with the empty path."""
    if is_module(holder):
        return [("", holder)]
    found: dict[int, tuple[str, nn.Module]] = {}
    seen = {id(holder)}
    level: list[tuple[str, object]] = [("", holder)]
    for _ in range(_DEEPEST):
        deeper: list[tuple[str, object]] = []
        for path, value in level:
            for name, item in _held(value):
                below = f"{path}.{name}" if path else name
                if is_module(item):
                    found.setdefault(id(item), (below, item))
                elif id(item) not in seen and len(seen) < _MOST:
                    seen.add(id(item))
                    deeper.append((below, item))
        level = deeper
    return list(found.values())


def named_modules(holder: object) -> Iterator[tuple[str, nn.Module]]:
    """Every module once, parents first, by its first path; cycles are followed once."""
    seen: set[int] = set()
    stack = list(reversed(roots(holder)))
    while stack:
        path, module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        prefix = f"{path}." if path else ""
        children = [(prefix + name, child) for name, child in module._modules.items() if child is not None]
        stack.extend(reversed(children))


def module_at(holder: object, path: str) -> nn.Module | None:
    """The module at `path`, by whichever of its names; None where there is none."""
    for start, module in roots(holder):
        if path == start:
            return module
        prefix = f"{start}." if start else ""
        found = _below(module, path[len(prefix) :]) if path.startswith(prefix) else None
        if found is not None:
            return found
    return None


def _below(module: nn.Module, path: str) -> nn.Module | None:
    """The module at `path` below `module`. Names may hold dots where they were not given by `add_module`."""
    names = path.split(".")
    pending: list[tuple[nn.Module, int]] = [(module, 0)]
    while pending:
        module, first = pending.pop()
        if first == len(names):
            return module
        children = module._modules
        longest = max((name.count(".") for name in children.keys()), default=0) + 1  # noqa: SIM118  as TorchScript wants
        for last in range(first + 1, min(first + longest, len(names)) + 1):
            name = ".".join(names[first:last])
            if name in children and children[name] is not None:
                pending.append((children[name], last))
    return None


def _held(value: object) -> Iterator[tuple[str, Any]]:
    """What is stored in an object, by name; no property runs."""
    if isinstance(value, _NO_CONTAINERS) or value is None or is_tensor(value):
        return
    if isinstance(value, (list, tuple)):
        items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        yield from ((str(index), item) for index, item in enumerate(items))
        return
    if isinstance(value, (set, frozenset, deque)):
        yield from ((str(index), item) for index, item in enumerate(value))
        return
    if isinstance(value, dict):
        yield from ((str(key), item) for key, item in dict.items(value))
        return
    try:
        stored = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return
    if isinstance(stored, dict):
        yield from ((str(name), item) for name, item in list(stored.items()))
