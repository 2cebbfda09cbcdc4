"""How each kind of Python object keeps its state: how to read it, and how to write it back.

Belongs here: one entry per builtin or library type. Does not belong here: which objects a model can reach (`state`).
Methods are called on the base class (`dict.clear(value)`), so that no code of a subclass runs.
"""

from __future__ import annotations

import array
import contextlib
import functools
import gc
import io
import random
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import BitGenerator, RandomState
from torch import nn
from torch.utils._pytree import tree_leaves

Content = tuple[tuple[Any, ...], tuple[Any, ...]]
"""The keys and the items of an object; keys are empty if items have none."""

_NOTHING: Content = ((), ())

STATS_ATTRIBUTE = "forward_stats"
"""Assay's own attribute, not restored: another thread may start or stop recording calls during a pass."""

EMPTY = object()
"""The content of an empty cell, an unset slot or a missing name."""

LRU_CACHE: Any = type(functools.lru_cache(lambda: None))

_FIXED = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
"""Types of class attributes that cannot change."""

_PATCHED = frozenset({"forward"})
"""Methods that passes in other threads may replace at any time."""


class Kind(NamedTuple):
    """How to save and restore objects of one type."""

    read: Callable[[Any], Content]
    write: Callable[[Any, Content], None]
    refers: bool = True
    """Whether the items are objects that the model can reach; else they are a copy of internal state."""


class Saved(NamedTuple):
    """An object and its content at the time it was saved."""

    value: Any
    content: Content
    kind: Kind

    def restore(self) -> None:
        """Write the saved content back if the current content differs from it."""
        keys, items = self.kind.read(self.value)
        if not (_same(items, self.content[1]) and _same(keys, self.content[0])):
            self.kind.write(self.value, self.content)

    def replaced(self, others: dict[int, Any]) -> Saved:
        """The same with other items in place of those with these ids."""
        keys, items = self.content
        return self._replace(content=(keys, tuple(others.get(id(item), item) for item in items)))


def _same(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether these are the same objects; tensors cannot be compared with `==`."""
    return len(values) == len(others) and all(map(is_, values, others))


def _opaque(read: Callable[[Any], Any], write: Callable[[Any, Any], Any]) -> Kind:
    """The kind of an object whose internal state is copied by `read` and set by `write`."""
    return Kind(lambda value: ((), (read(value),)), lambda value, content: write(value, content[1][0]), refers=False)


def _read_dict(value: dict[Any, Any]) -> Content:
    if not dict.__len__(value):
        return _NOTHING
    # A copy in one step: garbage collection may remove weak references in the middle of a loop.
    copy = dict.copy(value)
    return tuple(copy), tuple(copy.values())


def _write_dict(value: dict[Any, Any], content: Content) -> None:
    dict.clear(value)
    dict.update(value, zip(*content, strict=True))


def _read_ordered(value: OrderedDict[Any, Any]) -> Content:
    if not dict.__len__(value):
        return _NOTHING
    # The order after move_to_end() is known to the methods of OrderedDict only.
    keys = tuple(OrderedDict.keys(value))
    return keys, tuple(dict.__getitem__(value, key) for key in keys)


def _write_ordered(value: OrderedDict[Any, Any], content: Content) -> None:
    OrderedDict.clear(value)
    for key, item in zip(*content, strict=True):
        OrderedDict.__setitem__(value, key, item)


def _write_list(value: list[Any], content: Content) -> None:
    list.__setitem__(value, slice(None), content[1])


def _write_deque(value: deque[Any], content: Content) -> None:
    deque.clear(value)
    deque.extend(value, content[1])


def _write_set(value: set[Any], content: Content) -> None:
    set.clear(value)
    set.update(value, content[1])


def _read_cell(value: types.CellType) -> Content:
    try:
        return (), (value.cell_contents,)
    except ValueError:
        return (), (EMPTY,)


def _write_cell(value: types.CellType, content: Content) -> None:
    if content[1][0] is EMPTY:
        del value.cell_contents
    else:
        value.cell_contents = content[1][0]


def _write_array(value: Any, copy: Any) -> None:
    if value.shape != copy.shape:
        value.resize(copy.shape, refcheck=False)
    if value.flags.writeable:  # a pass cannot change the others either
        np.copyto(value, copy)


def _write_values(value: Any, values: Any) -> None:
    value[:] = values


def _write_bits(value: Any, state: Any) -> None:
    value.state = state


def _write_stream(value: Any, state: tuple[Any, int]) -> None:
    text, position = state
    value.seek(0)
    value.truncate()
    value.write(text)
    value.seek(position)


def cached_results(value: Any) -> list[Any]:
    """The keys and results in a function's cache of limited size; for one without a limit, its table."""
    # The cache refers to keys and results first, if its size is limited, then to its table and to the function.
    referents = gc.get_referents(value)
    end = max((at for at, each in enumerate(referents) if each is value.__wrapped__), default=0) - 1
    if end < 0 or type(referents[end]) is not dict:
        return []
    return [referents[end]] if value.cache_info().maxsize is None else referents[:end]


def _clear_cache(value: Any, before: Any) -> None:
    """Empty a function's cache of limited size if it was empty before, or if the pass added tensors to it."""
    if value.cache_info().misses == before.misses or before.maxsize is None:
        return
    is_tensor = any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(cached_results(value)))
    if is_tensor or not before.currsize:
        value.cache_clear()


def _read_script(module: torch.jit.ScriptModule) -> Content:
    content = script_attributes(module)
    return tuple(content), tuple(content.values())


def script_attributes(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """The attributes of a scripted module, except parameters and submodules."""
    script_type: Any = getattr(module, "_concrete_type", None)
    attributes = {} if script_type is None else script_type.get_attributes()
    content: dict[str, Any] = {}
    for name, (_, is_parameter) in attributes.items():
        if not is_parameter:
            with contextlib.suppress(RuntimeError):  # a member of an enum of the file has no form in Python
                content[name] = module._c.getattr(name)
    return content


def _write_script(module: torch.jit.ScriptModule, content: Content) -> None:
    for name, item in zip(*content, strict=True):
        module._c.setattr(name, item)


def _read_attributes(module: nn.Module) -> Content:
    attributes = module.__dict__.copy()
    attributes.pop(STATS_ATTRIBUTE, None)
    return tuple(attributes), tuple(attributes.values())


def _write_attributes(module: nn.Module, content: Content) -> None:
    attributes = module.__dict__
    recorded = {name: attributes[name] for name in (STATS_ATTRIBUTE,) if name in attributes}
    attributes.clear()
    attributes.update(zip(*content, strict=True), **recorded)


def _read_class(cls: type) -> Content:
    """The attributes of a class, except special names and those that cannot change."""
    attributes = {
        name: item
        for name, item in vars(cls).copy().items()
        if not name.startswith("__") and name not in _PATCHED and not isinstance(item, _FIXED)
    }
    return tuple(attributes), tuple(attributes.values())


def _write_class(cls: type, content: Content) -> None:
    saved, current = dict(zip(*content, strict=True)), dict(zip(*_read_class(cls), strict=True))
    for name in current.keys() - saved.keys():
        type.__delattr__(cls, name)
    for name, item in saved.items():
        if current.get(name, EMPTY) is not item:
            type.__setattr__(cls, name, item)


def _slots(cls: type) -> tuple[Any, ...]:
    """The descriptors of the slots of a class written in Python."""
    return tuple(
        attribute
        for base in cls.__mro__
        if "__slots__" in vars(base)
        for attribute in vars(base).values()
        if isinstance(attribute, types.MemberDescriptorType)
    )


def _read_slots(value: Any) -> Content:
    slots = _slots(type(value))
    return slots, tuple(_slot(slot, value) for slot in slots)


def _slot(slot: Any, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return EMPTY


def _write_slots(value: Any, content: Content) -> None:
    for slot, item in zip(*content, strict=True):
        current = _slot(slot, value)
        if item is EMPTY and current is not EMPTY:
            slot.__delete__(value)
        elif item is not current:
            slot.__set__(value, item)


def _write_object_class(value: Any, content: Content) -> None:
    object.__setattr__(value, "__class__", content[1][0])


def _read_variable(place: tuple[dict[str, Any], str]) -> Content:
    variables, name = place
    return (), (variables.get(name, EMPTY),)


def _write_variable(place: tuple[dict[str, Any], str], content: Content) -> None:
    variables, name = place
    if content[1][0] is EMPTY:
        variables.pop(name, None)
    else:
        variables[name] = content[1][0]


ARRAY = _opaque(np.copy, _write_array)
CACHE = _opaque(lambda value: value.cache_info(), _clear_cache)
CLASS = Kind(_read_class, _write_class, refers=False)
MODULE = Kind(_read_attributes, _write_attributes)
SCRIPT = Kind(_read_script, _write_script)
OBJECT_CLASS = Kind(lambda value: ((), (type(value),)), _write_object_class, refers=False)
"""The class of an object, which code can replace."""
SLOTS = Kind(_read_slots, _write_slots)
VARIABLE = Kind(_read_variable, _write_variable)
"""A global variable, given as (the dictionary of globals, its name)."""

KINDS: tuple[tuple[type, Kind], ...] = (
    (OrderedDict, Kind(_read_ordered, _write_ordered)),
    (dict, Kind(_read_dict, _write_dict)),
    (list, Kind(lambda value: ((), tuple(list.copy(value))), _write_list)),
    (deque, Kind(lambda value: ((), tuple(deque.__iter__(value))), _write_deque)),
    (set, Kind(lambda value: ((), tuple(set.__iter__(value))), _write_set)),
    (types.CellType, Kind(_read_cell, _write_cell)),
    (bytearray, _opaque(bytes, _write_values)),
    (array.array, _opaque(lambda value: value[:], _write_values)),
    (torch.Generator, _opaque(torch.Generator.get_state, torch.Generator.set_state)),
    (random.Random, _opaque(random.Random.getstate, random.Random.setstate)),
    (RandomState, _opaque(RandomState.get_state, RandomState.set_state)),
    (BitGenerator, _opaque(lambda value: value.state, _write_bits)),
    (io.BytesIO, _opaque(lambda value: (value.getvalue(), value.tell()), _write_stream)),
    (io.StringIO, _opaque(lambda value: (value.getvalue(), value.tell()), _write_stream)),
)
"""The kinds by base class; the first match counts."""
