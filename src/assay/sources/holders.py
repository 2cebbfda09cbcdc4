"""The modules of a model, or of an object that contains several models, by path; no user code is executed.

A pipeline is searched through its attributes, lists and dictionaries up to `_MAX_DEPTH` levels deep. Only stored
attributes are read, never properties.
"""

from __future__ import annotations

import contextlib
import types
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assay.sources.needs import is_module, is_tensor

if TYPE_CHECKING:
    from torch import nn

_MAX_DEPTH = 6
_MAX_OBJECTS = 10_000
"""The search stops after this many objects that are not modules."""
_LEAF_TYPES = (type, types.ModuleType, types.FunctionType, types.MethodType, str, bytes, int, float)


def outermost_modules(holder: object) -> list[tuple[str, nn.Module]]:
    """The outermost modules in `holder` with their paths; a module is its own root, with the empty path."""
    if is_module(holder):
        return [("", holder)]
    modules: dict[int, tuple[str, nn.Module]] = {}
    seen = {id(holder)}
    level: list[tuple[str, object]] = [("", holder)]
    for _ in range(_MAX_DEPTH):
        deeper: list[tuple[str, object]] = []
        for path, value in level:
            for name, item in _stored_items(value):
                item_path = f"{path}.{name}" if path else name
                if is_module(item):
                    modules.setdefault(id(item), (item_path, item))
                elif id(item) not in seen and len(seen) < _MAX_OBJECTS:
                    seen.add(id(item))
                    deeper.append((item_path, item))
        level = deeper
    return list(modules.values())


def named_modules(holder: object) -> Iterator[tuple[str, nn.Module]]:
    """Every module once with its first path, parents first; cycles are followed once."""
    seen: set[int] = set()
    stack = list(reversed(outermost_modules(holder)))
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
    """The module at `path`, which may be any of its paths if it is shared; None if there is no such module."""
    for start, module in outermost_modules(holder):
        if path == start:
            return module
        prefix = f"{start}." if start else ""
        submodule = _submodule(module, path[len(prefix) :]) if path.startswith(prefix) else None
        if submodule is not None:
            return submodule
    return None


def _submodule(module: nn.Module, path: str) -> nn.Module | None:
    """The module at `path` below `module`. A child's name may contain dots if it was not set by `add_module`."""
    names = path.split(".")
    pending: list[tuple[nn.Module, int]] = [(module, 0)]
    while pending:
        module, first = pending.pop()
        if first == len(names):
            return module
        children = module._modules
        longest = max((name.count(".") for name in children.keys()), default=0) + 1  # noqa: SIM118  for TorchScript
        for last in range(first + 1, min(first + longest, len(names)) + 1):
            name = ".".join(names[first:last])
            if name in children and children[name] is not None:
                pending.append((children[name], last))
    return None


def _stored_items(value: object) -> Iterator[tuple[str, Any]]:
    """The items of a container, or the stored attributes of an object, by name; no property is executed."""
    if isinstance(value, _LEAF_TYPES) or value is None or is_tensor(value):
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
    yield from _slots(value)
    yield from ((str(name), item) for name, item in list((attributes_of(value) or {}).items()))


def _slots(value: object) -> Iterator[tuple[str, Any]]:
    """The values in the slots of an object, by name."""
    for cls in type(value).__mro__:
        for name, descriptor in vars(cls).items() if "__slots__" in vars(cls) else ():
            if isinstance(descriptor, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # an empty slot
                    yield name, descriptor.__get__(value)


def attributes_of(value: object) -> dict[str, Any] | None:
    """The attribute dictionary of an object; None if it has none."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if isinstance(attributes, dict) else None
