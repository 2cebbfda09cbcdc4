"""The Python state that a model can reach, saved before a pass and restored after it.

A model keeps state in more than its parameters: caches in objects, counters, histories, closures, class attributes,
global variables that its code uses, optimizers. `PythonState` follows all of them from the modules, without running
any of the model's code, and saves a shallow copy of everything that can change. The values of tensors are not copied.

Code is followed by name: `forward`, special methods, and methods whose names appear in code that is followed already.
Functions and classes of torch, numpy and the standard library hold no state of a model and are not followed. Of other
installed packages, class attributes and global containers are followed, in which they cache tensors; their other
global variables belong to the whole process.
"""

from __future__ import annotations

import copy
import functools
import gc
import io
import itertools
import re
import sys
import threading
import types
import warnings
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from assay.errors import UsageError
from assay.messages import one_line, type_name
from assay.recorder.code_names import names_in
from assay.recorder.kept import (
    ARRAY,
    CACHE,
    CLASS,
    KINDS,
    LRU_CACHE,
    MODULE,
    OBJECT_CLASS,
    SCRIPT,
    SLOTS,
    VARIABLE,
    Kind,
    Saved,
    cached_results,
)
from assay.sources.holders import attributes_of

_FOREIGN = frozenset({"torch", "numpy", "assay", *sys.stdlib_module_names}) - {"__main__", "test"}
"""Packages whose functions and classes are not followed."""

_BACKGROUND = frozenset(
    {"assay", "logging", "threading", "queue", "asyncio", "concurrent", "contextlib", "multiprocessing", "socket"}
)
"""Packages whose objects belong to the whole process, or to a pass around this one: they may change meanwhile."""

_ATOMIC = (
    *(int, float, complex, bool, str, bytes, range, slice, type(None), type(...), type(NotImplemented)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, np.dtype, np.generic),
    *(weakref.ref, weakref.ProxyType, weakref.CallableProxyType),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, torch.fx.Graph, io.FileIO, io.TextIOWrapper),
    *(types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType),
)
"""Types that cannot change, or whose changes do not affect the model's result."""

_CODE = (types.FunctionType, staticmethod, classmethod, property)
_NOT_DATA = (*_CODE, type)
"""Types of class attributes that are code, which is followed by name, or nested classes."""
_LIBRARY_VARIABLES = (types.FunctionType, type, dict, list, set, LRU_CACHE)
"""Types of the global variables that are followed in the code of installed packages."""
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_COPIED_ITERATORS: tuple[type, ...] = (itertools.count, type(iter([])), type(iter(())), type(iter(range(0))))
"""Iterators whose position is visible and that can be copied at that position."""
_STRINGS = frozenset({str})
_HOOK_TYPES = (dict, OrderedDict, set)
_HOOK_NAMES = frozenset(name for name, value in nn.Module().__dict__.items() if type(value) in _HOOK_TYPES)
_HEAP_TYPE = 1 << 9
"""The flag of classes that are created at run time, whose objects may have attributes besides their content."""


class _Iterator(NamedTuple):
    """An iterator, its position, and a copy at that position."""

    value: Any
    position: Any
    fresh: Any


_Visitor = Callable[[Any], None]

_lock = threading.Lock()
_active: list[PythonState] = []
"""The saved states of all running passes."""

_LibraryKey = tuple[frozenset[int], frozenset[str]]
_library_objects: dict[_LibraryKey, tuple[list[Any], list[Any]]] = {}
"""What the code of installed packages refers to, by where it was entered and which names were called.

The entered functions and classes, and the objects that keep state. That code does not change between passes.
"""
_MAX_LIBRARIES = 32


class PythonState:
    """Everything that can change and is reachable from the modules, as it was when this object was created."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        """Save the state; raises `UsageError` for an object whose state could not be restored."""
        self.tensors: list[torch.Tensor] = []
        """All tensors that are reachable, parameters and buffers among them."""
        self._thread = threading.get_ident()
        self._saved: dict[Any, Saved] = {}
        self._seen: dict[int, Any] = {}
        self._iterators: list[_Iterator] = []
        self._unrestorable: list[Any] = []
        """Iterators whose position cannot be restored."""
        self._used: set[str] = set()
        """Names in code that a pass may run: all that is followed except constructors, which have run already."""
        self._called = {"forward"}
        """Names in the code that has been followed."""
        self._uncalled: defaultdict[str, list[Any]] = defaultdict(list)
        """Methods that are not followed unless their names become `_called`."""
        self._pending: list[Any] = list(modules)
        self._library: list[Any] = []
        """Functions and classes of installed packages, which are followed last."""
        self._in_library = False
        self._follows_code = True
        self._hooks: list[Any] = []
        """The empty containers that `nn.Module` creates for hooks, which are rarely used."""
        self._visitors: dict[type, _Visitor | None] = {}
        with _lock:
            self._follow()
            self._refuse_unrestorable()
            self._follow_library()
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
        advanced = {id(each.value): each.fresh for each in self._iterators if _position(each.value) != each.position}
        if advanced:
            self._saved = {key: saved.replaced(advanced) for key, saved in self._saved.items()}
            self._iterators = [_copied(advanced.get(id(each.value), each.value)) for each in self._iterators]
        others = [other._saved for other in self._others()]
        for key, saved in self._saved.items():
            if not others or not any(key in other for other in others):
                saved.restore()
        for container in self._hooks:
            if container:
                container.clear()

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

    def _follow_library(self) -> None:
        """Visit what the code of installed packages refers to."""
        self._in_library = True
        key = frozenset(map(id, self._library)), frozenset(self._called)
        if key in _library_objects:
            self._follows_code = False
            self._pending.extend(_library_objects[key][1])
            self._follow()
            return
        entered, before = list(self._library), frozenset(self._saved)
        self._pending.extend(entered)
        self._follow()
        if any(getattr(each, "__closure__", None) for each in entered):
            return  # made for this model, perhaps: remembering it could keep the model alive
        found = [saved.value for at, saved in self._saved.items() if at not in before and saved.kind is not VARIABLE]
        if len(_library_objects) == _MAX_LIBRARIES:
            _library_objects.clear()
        _library_objects[key] = entered, found

    def _visitor(self, cls: type) -> _Visitor | None:
        """The method that saves objects of this class and finds what they refer to; None for atomic values."""
        if issubclass(cls, _ATOMIC) or _package(cls.__module__) in _BACKGROUND:
            return None
        special = next((visit for base, visit in self._table() if issubclass(cls, base)), None)
        if special is not None:
            return special
        kind = next((kind for base, kind in KINDS if issubclass(cls, base)), None)
        if kind is None:
            return self._visit_object
        return functools.partial(self._visit_kept if cls.__flags__ & _HEAP_TYPE else self._save, kind)

    def _table(self) -> list[tuple[Any, _Visitor]]:
        """The visitors of types that are not only content: what else they refer to is followed too."""
        follow = self._pending.extend
        return [
            (torch.Tensor, self._visit_tensor),
            (torch.jit.ScriptModule, functools.partial(self._visit_kept, SCRIPT)),
            (nn.Module, self._visit_module),
            (type, self._visit_class),
            ((tuple, frozenset), lambda value: follow((*value, attributes_of(value)))),
            (types.FunctionType, self._visit_function),
            (types.MethodType, lambda value: follow((value.__self__, value.__func__))),
            (functools.partial, lambda value: follow((value.func, value.args, value.keywords, vars(value)))),
            (np.random.Generator, lambda value: follow((value.bit_generator,))),
            (types.MappingProxyType, lambda value: follow(gc.get_referents(value))),
            (np.ndarray, self._visit_array),
            (LRU_CACHE, self._visit_cache),
        ]

    def _save(self, kind: Kind, value: Any, key: Any = None) -> None:
        """Save the content of `value` and follow what it refers to."""
        content = keys, items = kind.read(value)
        self._saved[id(value) if key is None else key] = Saved(value, content, kind)
        if items and kind.refers:
            self._pending.extend(items)
            if keys and not _STRINGS.issuperset(map(type, keys)):
                self._pending.extend(keys)

    def _visit_kept(self, kind: Kind, value: Any) -> None:
        """Save an object of a class that derives from a builtin, and may have attributes besides."""
        self._save(kind, value)
        self._visit_object(value)

    def _visit_module(self, module: nn.Module) -> None:
        content = MODULE.read(module)
        self._saved[id(module)] = Saved(module, content, MODULE)
        self._save(OBJECT_CLASS, module, key=(id(module), "class"))
        self._pending.append(type(module))
        for name, item in zip(*content, strict=True):
            if name in _HOOK_NAMES and not item and type(item) in _HOOK_TYPES:
                self._hooks.append(item)
            else:
                self._pending.append(item)

    def _visit_array(self, value: Any) -> None:
        self._save(ARRAY, value)
        if value.dtype == object:
            self._pending.extend(value.flat)

    def _visit_cache(self, value: Any) -> None:
        self._save(CACHE, value)
        self._pending += (value.__wrapped__, vars(value))
        self._pending.extend(cached_results(value))

    def _visit_tensor(self, value: torch.Tensor) -> None:
        self.tensors.append(value)
        hooks = value._backward_hooks, getattr(value, "_post_accumulate_grad_hooks", None)
        self._pending += (attributes_of(value), *hooks)

    def _visit_object(self, value: Any) -> None:
        attributes = attributes_of(value)
        if attributes is None and hasattr(type(value), "__next__"):
            self._visit_iterator(value)
        elif any("__slots__" in vars(base) for base in type(value).__mro__):
            self._save(SLOTS, value, key=(id(value), "slots"))
        if type(value).__flags__ & _HEAP_TYPE:
            self._save(OBJECT_CLASS, value, key=(id(value), "class"))
        self._pending += (attributes, type(value))

    def _visit_iterator(self, value: Any) -> None:
        if isinstance(value, _COPIED_ITERATORS):
            self._iterators.append(_copied(value))
        elif not self._in_library:
            self._unrestorable.append(value)

    def _refuse_unrestorable(self) -> None:
        """Raise `UsageError` for an iterator that the model may advance: its code uses the name, or it has none."""
        for iterator in self._unrestorable:
            names = list(self._names(iterator))
            if names and self._used.isdisjoint(names):
                continue
            what = f"{one_line(names[0])!r} is" if names else "it holds"
            raise UsageError(
                f"the model cannot be run without changing it: {what} a {type_name(iterator)}, whose position cannot "
                "be restored; replace it by a list, or remove it from the model"
            )

    def _names(self, value: Any) -> Iterable[str]:
        """The names by which the objects visited so far refer to `value`."""
        for saved in self._saved.values():
            keys, items = saved.content
            yield from (key for key, item in zip(keys, items, strict=False) if item is value and type(key) is str)

    def _is_followed(self, code: types.FunctionType | type) -> bool:
        """Whether to follow this function or class now; those of installed packages are left for later."""
        name = code.__module__
        if _is_foreign(name):
            return False
        if self._in_library or name not in sys.modules or not _is_installed(vars(sys.modules[name])):
            return True
        del self._seen[id(code)]
        self._library.append(code)
        forward = vars(code).get("forward")
        if isinstance(forward, types.FunctionType):
            self._used |= names_in(forward.__code__).names
        return False

    def _visit_function(self, value: types.FunctionType) -> None:
        if not self._follows_code:
            return
        if _package(value.__globals__.get("__name__")) == "assay":  # a wrapper of an outer pass around a method
            self._pending.append(vars(value).get("__wrapped__"))
            return
        if not self._is_followed(value):
            return
        self._pending += (value.__closure__, value.__defaults__, value.__kwdefaults__, vars(value))
        references = names_in(value.__code__)
        self._visit_variables(value.__globals__, references.loaded, references.stored)
        used = [value.__globals__.get(name) for name in references.loaded]
        for module in (*used, *map(sys.modules.get, references.imported)):
            if isinstance(module, types.ModuleType):
                self._visit_variables(vars(module), references.names, references.assigned)
        if value.__name__ != "__init__":
            self._used |= references.names
        for name in references.names - self._called:
            self._called.add(name)
            self._pending.extend(self._uncalled.pop(name, ()))

    def _visit_variables(self, variables: dict[str, Any], loaded: Iterable[str], stored: Iterable[str]) -> None:
        """Follow the global variables `loaded` of a module, and save those that code may assign."""
        if _is_foreign(variables.get("__name__")):
            return
        values = [variables[name] for name in loaded if name in variables]
        if _is_installed(variables):
            later = self._pending if self._in_library else self._library
            later.extend(each for each in values if isinstance(each, _LIBRARY_VARIABLES))
            return
        self._pending.extend(values)
        for name in stored:
            self._save(VARIABLE, (variables, name), key=(id(variables), name))

    def _visit_class(self, value: type) -> None:
        if not self._is_followed(value):
            return
        self._save(CLASS, value)
        attributes = vars(value).copy()
        self._pending.extend(
            item for name, item in attributes.items() if not name.startswith("__") and not isinstance(item, _NOT_DATA)
        )
        if not self._follows_code:
            return
        self._pending += (*value.__mro__, type(value))
        for name, attribute in attributes.items():
            if isinstance(attribute, _CODE):
                called = name in self._called or name.startswith("__")
                (self._pending if called else self._uncalled[name]).extend(_functions(attribute))


def _is_foreign(module: object) -> bool:
    return _package(module) in _FOREIGN


def _package(module: object) -> str:
    """The package of a module; empty if a class has something else as its `__module__`, as some of Cython do."""
    return module.partition(".")[0] if isinstance(module, str) else ""


def _is_installed(variables: dict[str, Any]) -> bool:
    """Whether these global variables are those of a module in an installed package."""
    return _INSTALLED.search(str(variables.get("__file__"))) is not None


def _functions(attribute: Any) -> list[Any]:
    """The functions of a class attribute that is code."""
    if isinstance(attribute, property):
        return [function for function in (attribute.fget, attribute.fset) if function is not None]
    return [attribute if isinstance(attribute, types.FunctionType) else attribute.__func__]


def _copied(iterator: Any) -> _Iterator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # for copies of itertools objects
        return _Iterator(iterator, _position(iterator), copy.copy(iterator))


def _position(iterator: Any) -> Any:
    """Where an iterator stands, without moving it."""
    return repr(iterator) if isinstance(iterator, itertools.count) else iterator.__length_hint__()
