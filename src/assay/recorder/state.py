"""The Python state that a model can reach, saved before a pass and restored after it.

A model keeps state in more than its parameters: caches in objects, counters, histories, closures, class attributes,
global variables that its code uses, optimizers. `PythonState` follows all of them from the modules, without running
any of the model's code, and saves a shallow copy of everything that can change. The values of tensors are not copied.

Code is followed by name: `forward`, special methods, and methods whose names appear in code that is followed already.
Functions and classes of torch, numpy and the standard library hold no state of a model and are not followed.
"""

from __future__ import annotations

import copy
import dis
import functools
import gc
import io
import itertools
import random
import sys
import threading
import types
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from assay.errors import UsageError
from assay.messages import one_line, type_name

STATS_ATTRIBUTE = "forward_stats"
"""Assay's own attribute, not restored: another thread may start or stop recording calls during a pass."""

_FOREIGN = frozenset({"torch", "numpy", "assay", *sys.stdlib_module_names}) - {"__main__", "test"}
"""Packages whose functions and classes are not followed."""

_BACKGROUND = frozenset({"logging", "threading", "queue", "asyncio", "concurrent", "multiprocessing", "socket"})
"""Packages whose objects belong to the whole process: other threads may change them during a pass."""

_ATOMIC = (
    *(int, float, complex, bool, str, bytes, range, slice, type(None), type(...), type(NotImplemented)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, np.dtype, np.generic),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, torch.fx.Graph, io.IOBase),
    *(types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType),
)
"""Types that cannot change, or whose changes do not affect the model's result."""

_CODE = (types.FunctionType, staticmethod, classmethod, property)
_LRU_CACHE: Any = type(functools.lru_cache(lambda: None))
_COPIED_ITERATORS: tuple[type, ...] = (itertools.count, type(iter([])), type(iter(())), type(iter(range(0))))
"""Iterators whose position is visible and that can be copied at that position."""
_EMPTY = object()
"""The content of an empty cell, an unset slot or a missing name."""


class _Saved(NamedTuple):
    """An object, a copy of its state, and the function that restores it from the copy if it differs."""

    value: Any
    copy: Any
    restore: Callable[[Any, Any], None]


_Visitor = Callable[[Any], None]

_lock = threading.Lock()
_active: list[PythonState] = []
"""The saved states of all running passes."""


class PythonState:
    """Everything that can change and is reachable from the modules, as it was when this object was created."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        """Save the state; raises `UsageError` for an object whose state could not be restored."""
        self.tensors: list[torch.Tensor] = []
        """All tensors that are reachable, parameters and buffers among them."""
        self._thread = threading.get_ident()
        self._saved: dict[Any, _Saved] = {}
        self._seen: dict[int, Any] = {}
        self._iterators: list[tuple[Any, Any, Any]] = []
        """Each iterator with its position and a copy at that position."""
        self._called = {"forward"}
        """Names in the code that has been followed."""
        self._uncalled: defaultdict[str, list[Any]] = defaultdict(list)
        """Methods that are not followed unless their names become `_called`."""
        self._pending: list[Any] = list(modules)
        self._visitors: dict[type, _Visitor | None] = {}
        with _lock:
            self._follow()
            self._inherit()
            _active.append(self)

    def restore(self) -> None:
        """Restore all that changed, except what is shared with a running pass in another thread."""
        with _lock:
            self._restore()

    def close(self) -> None:
        """Restore all that changed, and end; shared objects are restored by the last pass to end."""
        with _lock:
            _active.remove(self)
            self._restore()

    def _restore(self) -> None:
        advanced = {id(value): fresh for value, at, fresh in self._iterators if _position(value) != at}
        if advanced:
            self._saved = {key: _with_replaced(saved, advanced) for key, saved in self._saved.items()}
            self._iterators = [_iterator_state(advanced.get(id(value), value)) for value, _, _ in self._iterators]
        others = [other._saved for other in self._others()]
        for key, (value, saved_copy, restore) in self._saved.items():
            if not any(key in saved for saved in others):
                restore(value, saved_copy)

    def _others(self) -> list[PythonState]:
        return [other for other in _active if other._thread != self._thread]

    def _inherit(self) -> None:
        """Use the copies of passes in other threads for shared objects, which these may have changed already."""
        for other in self._others():
            for key in self._saved.keys() & other._saved.keys():
                self._saved[key] = other._saved[key]

    def _follow(self) -> None:
        """Visit every reachable object once."""
        pending, seen, visitors = self._pending, self._seen, self._visitors
        while pending:
            value = pending.pop()
            cls = type(value)
            if cls not in visitors:
                visitors[cls] = self._visitor(cls)
            visit = visitors[cls]
            if visit is not None and id(value) not in seen:
                seen[id(value)] = value
                visit(value)

    def _visitor(self, cls: type) -> _Visitor | None:
        """The method that saves objects of this class and finds what they refer to; None for atomic values."""
        if issubclass(cls, _ATOMIC) or (cls.__module__ or "").partition(".")[0] in _BACKGROUND:
            return None
        return next(visit for base, visit in self._table() if issubclass(cls, base))

    def _table(self) -> list[tuple[Any, _Visitor]]:
        """The visitors by base class; the first match counts."""
        save, follow = self._save, self._pending
        return [
            (torch.Tensor, self._visit_tensor),
            (torch.jit.ScriptModule, lambda value: save(value, _script_attributes(value), _restore_script)),
            (nn.Module, self._visit_module),
            (type, self._visit_class),
            (OrderedDict, self._visit_ordered),
            (dict, self._visit_dict),
            (list, self._visit_list),
            (deque, self._visit_deque),
            (set, self._visit_set),
            ((tuple, frozenset), follow.extend),
            (types.FunctionType, self._visit_function),
            (types.MethodType, lambda value: follow.extend((value.__self__, value.__func__))),
            (types.CellType, self._visit_cell),
            (functools.partial, lambda value: follow.extend((value.func, value.args, value.keywords, vars(value)))),
            (_LRU_CACHE, self._visit_cache),
            (np.ndarray, self._visit_array),
            (bytearray, lambda value: save(value, bytes(value), _restore_bytes)),
            (torch.Generator, lambda value: save(value, value.get_state(), torch.Generator.set_state)),
            (random.Random, lambda value: save(value, random.Random.getstate(value), random.Random.setstate)),
            (np.random.RandomState, lambda value: save(value, value.get_state(), np.random.RandomState.set_state)),
            (np.random.Generator, lambda value: follow.append(value.bit_generator)),
            (np.random.BitGenerator, lambda value: save(value, value.state, _restore_bits)),
            (object, self._visit_object),
        ]

    def _save(self, value: Any, state: Any, restore: Callable[[Any, Any], None]) -> None:
        self._saved[id(value)] = _Saved(value, state, restore)

    def _visit_dict(self, value: dict[Any, Any]) -> None:
        self._save(value, dict.copy(value), _restore_dict)
        self._pending.extend(dict.values(value))

    def _visit_ordered(self, value: OrderedDict[Any, Any]) -> None:
        self._save(value, tuple(OrderedDict.items(value)), _restore_ordered)
        self._pending.extend(dict.values(value))

    def _visit_list(self, value: list[Any]) -> None:
        self._save(value, tuple(list.__iter__(value)), _restore_list)
        self._pending.extend(list.__iter__(value))

    def _visit_deque(self, value: deque[Any]) -> None:
        self._save(value, tuple(deque.__iter__(value)), _restore_deque)
        self._pending.extend(deque.__iter__(value))

    def _visit_set(self, value: set[Any]) -> None:
        self._save(value, set.copy(value), _restore_set)
        self._pending.extend(set.__iter__(value))

    def _visit_tensor(self, value: torch.Tensor) -> None:
        self.tensors.append(value)
        self._pending.append(_attributes(value))

    def _visit_module(self, value: nn.Module) -> None:
        attributes = value.__dict__
        self._seen[id(attributes)] = attributes
        self._save(attributes, dict.copy(attributes), _restore_module)
        self._pending.extend(attributes.values())
        self._pending.append(type(value))

    def _visit_object(self, value: Any) -> None:
        attributes = _attributes(value)
        slots = _slots(type(value))
        if attributes is None and not slots and hasattr(type(value), "__next__"):
            self._visit_iterator(value)
        if slots:
            contents = [(slot, _content(slot.__get__, value)) for slot in slots]
            self._save(value, contents, _restore_slots)
            self._pending.extend(content for _, content in contents)
        self._pending += (attributes, type(value))

    def _visit_iterator(self, value: Any) -> None:
        if not isinstance(value, _COPIED_ITERATORS):
            names = [
                name
                for holder in self._seen.values()
                if isinstance(holder, dict)
                for name, item in dict.items(holder)
                if item is value and isinstance(name, str)
            ]
            what = f"{one_line(names[0])!r} is" if names else "it holds"
            raise UsageError(
                f"the model cannot be run without changing it: {what} a {type_name(value)}, whose position cannot be "
                "restored; replace it by a list, or remove it from the model"
            )
        self._iterators.append(_iterator_state(value))

    def _visit_array(self, value: Any) -> None:
        if value.dtype == object:
            self._pending.extend(value.flat)
        if value.flags.writeable:
            self._save(value, value.copy(), _restore_array)

    def _visit_cell(self, value: types.CellType) -> None:
        content = _content(lambda cell: cell.cell_contents, value)
        self._save(value, content, _restore_cell)
        self._pending.append(content)

    def _visit_cache(self, value: Any) -> None:
        self._save(value, value.cache_info(), _restore_cache)
        self._pending += (value.__wrapped__, vars(value))

    def _visit_function(self, value: types.FunctionType) -> None:
        if _is_foreign(value.__module__):
            return
        self._pending += (value.__closure__, value.__defaults__, value.__kwdefaults__, vars(value))
        variables = value.__globals__
        references = _references(value.__code__)
        if not _is_foreign(variables.get("__name__")):
            self._pending.extend(variables[name] for name in references.loaded if name in variables)
            for name in references.stored:
                binding = (variables, name)
                self._saved[id(variables), name] = _Saved(binding, variables.get(name, _EMPTY), _restore_variable)
        for name in references.names - self._called:
            self._called.add(name)
            self._pending.extend(self._uncalled.pop(name, ()))

    def _visit_class(self, value: type) -> None:
        if _is_foreign(value.__module__):
            return
        data = _class_data(value)
        self._save(value, data, _restore_class)
        self._pending.extend(data.values())
        self._pending.extend(value.__mro__)
        for name, attribute in vars(value).items():
            if isinstance(attribute, _CODE):
                called = name in self._called or name.startswith("__")
                (self._pending if called else self._uncalled[name]).extend(_functions(attribute))


class _References(NamedTuple):
    """The names in the code of a function and of the functions inside it."""

    loaded: frozenset[str]
    """Global variables it reads."""
    stored: frozenset[str]
    """Global variables it assigns or deletes."""
    names: frozenset[str]
    """All names, attributes included."""


@functools.lru_cache(8192)
def _references(code: types.CodeType) -> _References:
    instructions = list(dis.get_instructions(code))
    loaded = {step.argval for step in instructions if step.opname == "LOAD_GLOBAL"}
    stored = {step.argval for step in instructions if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")}
    inner = [_references(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return _References(
        frozenset(loaded.union(*(each.loaded for each in inner))),
        frozenset(stored.union(*(each.stored for each in inner))),
        frozenset(code.co_names).union(*(each.names for each in inner)),
    )


def _is_foreign(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _FOREIGN


def _attributes(value: Any) -> dict[str, Any] | None:
    """The attribute dictionary of an object, without running its code; None if it has none."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if isinstance(attributes, dict) else None


def _slots(cls: type) -> list[Any]:
    """The descriptors of the slots of a class written in Python."""
    return [
        attribute
        for base in cls.__mro__
        if "__slots__" in vars(base)
        for attribute in vars(base).values()
        if isinstance(attribute, types.MemberDescriptorType)
    ]


def _functions(attribute: Any) -> list[Any]:
    """The functions of a class attribute that is code."""
    if isinstance(attribute, property):
        return [function for function in (attribute.fget, attribute.fset) if function is not None]
    return [attribute if isinstance(attribute, types.FunctionType) else attribute.__func__]


def _class_data(cls: type) -> dict[str, Any]:
    """The attributes of a class that are data: no functions, nested classes or special names."""
    return {
        name: value
        for name, value in vars(cls).items()
        if not name.startswith("__") and not issubclass(type(value), (*_CODE, *_ATOMIC[-3:], type))
    }


def _script_attributes(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """The attributes of a scripted module by name, except parameters and submodules."""
    script_type: Any = getattr(module, "_concrete_type", None)
    attributes = {} if script_type is None else script_type.get_attributes()
    return {name: module._c.getattr(name) for name, (_, is_parameter) in attributes.items() if not is_parameter}


def _content(read: Callable[[Any], Any], holder: Any) -> Any:
    """What a cell or slot holds; `_EMPTY` if nothing."""
    try:
        return read(holder)
    except (ValueError, AttributeError):
        return _EMPTY


def _iterator_state(iterator: Any) -> tuple[Any, Any, Any]:
    """The iterator, its position and a copy at that position."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # for copies of itertools objects
        return iterator, _position(iterator), copy.copy(iterator)


def _position(iterator: Any) -> Any:
    """Where an iterator stands, without moving it."""
    return repr(iterator) if isinstance(iterator, itertools.count) else iterator.__length_hint__()


def _with_replaced(saved: _Saved, replacements: dict[int, Any]) -> _Saved:
    """`saved` with other objects in place of those with these ids, if its copy is a container that refers to them."""
    state = saved.copy
    if isinstance(state, dict):
        return saved._replace(copy={key: replacements.get(id(item), item) for key, item in state.items()})
    if saved.restore is _restore_ordered:
        return saved._replace(copy=tuple((key, replacements.get(id(item), item)) for key, item in state))
    if saved.restore in (_restore_list, _restore_deque):
        return saved._replace(copy=tuple(replacements.get(id(item), item) for item in state))
    if saved.restore is _restore_slots:
        return saved._replace(copy=[(slot, replacements.get(id(item), item)) for slot, item in state])
    return saved._replace(copy=replacements.get(id(state), state))


def _restore_dict(value: dict[Any, Any], state: dict[Any, Any]) -> None:
    if not _same_items(value, state):
        dict.clear(value)
        dict.update(value, state)


def _restore_module(value: dict[str, Any], state: dict[str, Any]) -> None:
    if not _same_items(value, state):
        recorded = {name: item for name, item in value.items() if name == STATS_ATTRIBUTE}
        value.clear()
        value.update({name: item for name, item in state.items() if name != STATS_ATTRIBUTE} | recorded)


def _same_items(value: dict[Any, Any], state: dict[Any, Any]) -> bool:
    """Whether the keys and values are the same objects in the same order; tensors cannot be compared with `==`."""
    if dict.__len__(value) != len(state):
        return False
    return all(map(is_, dict.values(value), state.values())) and all(map(is_, dict.__iter__(value), state))


def _restore_ordered(value: OrderedDict[Any, Any], state: tuple[tuple[Any, Any], ...]) -> None:
    if not state and not dict.__len__(value):
        return
    items = list(OrderedDict.items(value))
    if len(items) != len(state) or any(
        a[0] is not b[0] or a[1] is not b[1] for a, b in zip(items, state, strict=True)
    ):
        OrderedDict.clear(value)
        for key, item in state:
            OrderedDict.__setitem__(value, key, item)


def _restore_list(value: list[Any], state: tuple[Any, ...]) -> None:
    if list.__len__(value) != len(state) or not all(map(is_, list.__iter__(value), state)):
        list.__setitem__(value, slice(None), state)


def _restore_deque(value: deque[Any], state: tuple[Any, ...]) -> None:
    if deque.__len__(value) != len(state) or not all(map(is_, deque.__iter__(value), state)):
        deque.clear(value)
        deque.extend(value, state)


def _restore_set(value: set[Any], state: set[Any]) -> None:
    if set.__len__(value) != len(state) or not all(map(state.__contains__, set.__iter__(value))):
        set.clear(value)
        set.update(value, state)


def _restore_bytes(value: bytearray, state: bytes) -> None:
    if value != state:
        value[:] = state


def _restore_array(value: Any, state: Any) -> None:
    if value.shape != state.shape:
        value.resize(state.shape, refcheck=False)
    np.copyto(value, state)


def _restore_bits(value: Any, state: Any) -> None:
    value.state = state


def _restore_slots(value: Any, state: list[tuple[Any, Any]]) -> None:
    for slot, content in state:
        current = _content(slot.__get__, value)
        if current is content:
            continue
        if content is _EMPTY:
            slot.__delete__(value)
        else:
            slot.__set__(value, content)


def _restore_cell(value: types.CellType, state: Any) -> None:
    if _content(lambda cell: cell.cell_contents, value) is state:
        return
    if state is _EMPTY:
        del value.cell_contents
    else:
        value.cell_contents = state


def _restore_variable(value: tuple[dict[str, Any], str], state: Any) -> None:
    variables, name = value
    if state is _EMPTY:
        variables.pop(name, None)
    elif variables.get(name, _EMPTY) is not state:
        variables[name] = state


def _restore_class(value: type, state: dict[str, Any]) -> None:
    current = _class_data(value)
    if _same_items(current, state):
        return
    for name in current.keys() - state.keys():
        type.__delattr__(value, name)
    for name, content in state.items():
        if current.get(name, _EMPTY) is not content:
            type.__setattr__(value, name, content)


def _restore_script(value: torch.jit.ScriptModule, state: dict[str, Any]) -> None:
    for name, content in state.items():
        value._c.setattr(name, content)


def _restore_cache(value: Any, state: Any) -> None:
    """Empty a function's cache if the pass added tensors to it, for example tensors without data."""
    if value.cache_info().misses == state.misses:
        return
    # The results are referents of the cache's dictionary, or of the links in it if the size is limited.
    entries = [entry for table in gc.get_referents(value) if type(table) is dict for entry in table.values()]
    results = [result for entry in entries for result in (entry, *gc.get_referents(entry))]
    if any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(results)):
        value.cache_clear()
