"""Collects the tensors, modules and plain facts from the value that a pickle describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from assay.checkpoint.dtypes import NUMPY
from assay.checkpoint.entries import ModuleRow
from assay.checkpoint.files import Region
from assay.checkpoint.listing import MAX_NAME_LENGTH, NameBudget, uninitialized_note
from assay.checkpoint.pickle.texts import PlainBytes
from assay.checkpoint.pickle.values import (
    Array,
    ArrayType,
    Blob,
    Global,
    RawStorage,
    Stub,
    TensorParts,
    TensorValue,
    contiguous_strides,
)
from assay.document.roles import ATTRIBUTE, BUFFER, PARAMETER
from assay.errors import ReadError
from assay.messages import one_line, plural

MAX_MODULES = 100_000
MAX_REPEATED = 100_000
"""Limit for values that are visited more than once; lists of lists of the same list would never end."""
MAX_VISITED = 8_000_000
"""Limit for items of all values that are visited: more than a pickle can describe without repeating itself."""
MAX_DEPTH = 500
MAX_FACTS = 256
MAX_FACT_LENGTH = 500
MAX_FACT_DEPTH = 2

_SCALARS = frozenset((bool, int, float, str, type(None)))
_OWN = {"_parameters": PARAMETER, "_buffers": BUFFER, "_modules": ""}
"""A module's dictionaries, with the role of the tensors in them; their names are not part of a tensor's name."""
_UNINITIALIZED = tuple(f"torch.nn.parameter.Uninitialized{kind}" for kind in ("Parameter", "Buffer"))
"""Tensors of lazy modules that have not run: they have no shape yet."""
SCRIPTED = "__torch__"
ScriptedRoles = Mapping[str, Mapping[str, str]]
"""For each class of a scripted model, by its qualified name, the roles of its parameters and buffers."""
INSIDE = "its data is inside the pickle in an encoding that is not supported"


class PickleContents(NamedTuple):
    """The contents of a pickle, in file order."""

    tensors: list[tuple[str, TensorValue]]
    modules: list[ModuleRow]
    facts: dict[str, Any]
    """Numbers and short texts near the top: an epoch, a step, a learning rate."""
    notes: tuple[str, ...]
    roles: dict[str, str]
    """The roles of the tensors in modules, by name."""
    holds: str
    """What the pickle is of: `an empty dictionary`."""


def collect(path: str, value: Any, region: Region, scripted: ScriptedRoles | None = None) -> PickleContents:
    """The contents of `value`, which was unpickled from `region`; skipped bytes are read from there again."""
    return _Walk(path, region, scripted or {}).run(value)._replace(holds=_kind_of(value))


class _InModule(NamedTuple):
    """An item of a module, with the role of the tensors in it; empty if unknown."""

    value: Any
    role: str


class _Frame(NamedTuple):
    """A value whose items are being visited."""

    owner: int
    items: Iterator[tuple[str, Any]]
    again: bool
    """Whether it, or a value that contains it, has been visited before."""
    role: str


class _Walk:
    def __init__(self, path: str, region: Region, scripted: ScriptedRoles) -> None:
        self._path = path
        self._bytes = PlainBytes(region)
        self._scripted = scripted
        self._contents = PickleContents([], [], {}, (), {}, "")
        self._arrays: dict[int, TensorValue] = {}
        self._modules: set[int] = set()
        self._uninitialized: dict[int, str] = {}
        self._names = NameBudget(path)
        self._module_names = NameBudget(path, "module", MAX_MODULES)
        self._deep = False

    def run(self, root: Any) -> PickleContents:
        """Visit all values without recursion; a value that contains itself is entered once."""
        frames: list[_Frame] = [_Frame(0, iter([("", root)]), False, "")]
        ancestors: set[int] = set()
        seen: set[int] = set()
        repeated = visited = 0
        while frames:
            owner, items, again, role = frames[-1]
            step = next(items, None)
            if step is None:
                frames.pop()
                ancestors.discard(owner)
                continue
            repeated += again
            if repeated > MAX_REPEATED or visited > MAX_VISITED:
                raise ReadError(f"{one_line(self._path)} is rejected: its values refer to each other endlessly")
            name, value = step
            if len(name) > MAX_NAME_LENGTH:
                self._deep = True
                continue
            if type(value) is _InModule:
                value, role = value
            inner = self._visit(name, value, len(frames), role)
            if inner is None:
                continue
            visited += _size(value)
            known = id(value) in seen
            repeated += known
            if id(value) in ancestors:
                continue
            if len(frames) >= MAX_DEPTH:
                self._deep = True
                continue
            ancestors.add(id(value))
            frames.append(_Frame(id(value), inner, again or known, role))
            seen.add(id(value))
        deep = (f"values nested more than {MAX_DEPTH} levels deep were skipped",) if self._deep else ()
        return self._contents._replace(notes=(*deep, *uninitialized_note(tuple(self._uninitialized.values()))))

    def _visit(self, name: str, value: Any, depth: int, role: str) -> Iterator[tuple[str, Any]] | None:
        """Record `value` if it is a tensor or a fact; else return its items, by full name."""
        kind = type(value)
        if kind is TensorValue:
            self._add(name, value, role)
            return None
        short = depth <= MAX_FACT_DEPTH and kind in (dict, list, tuple) and len(value) <= MAX_FACTS
        if kind is dict:
            return ((_join(name, key), item) for key, item in value.items() if short or type(item) not in _SCALARS)
        if kind is list or kind is tuple:
            return ((_join(name, i), item) for i, item in enumerate(value) if short or type(item) not in _SCALARS)
        if kind is Stub:
            return self._inside(name, value, role)
        if kind is TensorParts:
            return ((_join(name, key), item) for key, item in value.parts.items())
        if kind is RawStorage:
            self._add(name, TensorValue(value, 0, (value.numel,), (1,)), role)
        elif kind is Array:
            self._add(name, self._array(value), role)
        elif depth <= MAX_FACT_DEPTH + 1:
            self._note(name, value)
        return None

    def _add(self, name: str, tensor: TensorValue, role: str) -> None:
        self._names.add(name)
        self._contents.tensors.append((name, tensor))
        if role:
            self._contents.roles[name] = role

    def _inside(self, name: str, stub: Stub, role: str) -> Iterator[tuple[str, Any]] | None:
        """The attributes and items of an object; those of a module are named as torch would."""
        if stub.class_path in _UNINITIALIZED:
            self._uninitialized.setdefault(id(stub), name)
            return None
        state = _attributes(stub.state)
        if not _is_module(stub, state):
            return _of_object(name, stub, state)
        if role == ATTRIBUTE:  # a module in a list or a hook is not one of torch's submodules
            return _of_module(name, state, {}, dict.fromkeys(_OWN, ATTRIBUTE))
        if id(stub) not in self._modules:
            self._modules.add(id(stub))
            self._module_names.add(name)
            self._contents.modules.append(ModuleRow(name, stub.class_path))
        return _of_module(name, state, self._scripted.get(stub.class_path) if _is_scripted(stub) else {})

    def _note(self, name: str, value: Any) -> None:
        is_plain = isinstance(value, (bool, int, float, str))
        is_short = not isinstance(value, str) or len(value) <= MAX_FACT_LENGTH
        is_small = not isinstance(value, int) or abs(value) < 1 << 63
        if name and is_plain and is_short and is_small and len(self._contents.facts) < MAX_FACTS:
            self._contents.facts[name] = value

    def _array(self, array: Array) -> TensorValue:
        """A numpy array as a tensor; its `problem` is set if its bytes cannot be read."""
        if id(array) in self._arrays:
            return self._arrays[id(array)]
        shape = array.shape if isinstance(array.shape, tuple) else (array.shape,)
        dtype, swapped = _array_dtype(array.dtype)
        data = array.data.encode() if isinstance(array.data, str) else array.data
        strides = contiguous_strides(shape[::-1])[::-1] if array.fortran else contiguous_strides(shape)
        storage = RawStorage("inside the pickle", dtype, 0)
        data_region = self._bytes.region(data) if isinstance(data, (bytes, Blob)) else None
        if data_region is not None:
            file = data_region.file
            storage.set_location(data_region.path, data_region.base, data_region.size, file.encoded)
        else:
            storage.problem = INSIDE
        if swapped:
            storage.swap()
        tensor = self._arrays[id(array)] = TensorValue(storage, 0, shape, strides)
        return tensor


def _kind_of(value: Any) -> str:
    """A few words on a pickled value: `a dictionary with 2 items`."""
    if isinstance(value, Stub) and value.cls is not None:
        name = one_line(value.class_path, 80)
        is_call = isinstance(value.cls, Global) and value.state is None and not value.cls.name[:1].isupper()
        return f"a call of {name}" if is_call else f"an object of {name}"
    if isinstance(value, Global):
        return f"a reference to {one_line(value.path, 80)}"
    if isinstance(value, (dict, list, tuple)):
        noun = {dict: "dictionary", list: "list", tuple: "tuple"}[type(value)]
        return f"a {noun} with {plural(len(value), 'item')}" if value else f"an empty {noun}"
    return _KINDS.get(type(value), "an object")


_KINDS = {str: "a string", int: "a number", float: "a number", bool: "a truth value", Blob: "bytes or a long string",
          bytes: "bytes", type(None): "None"}  # fmt: skip


def _join(name: str, key: Any) -> str:
    text = key if type(key) is str else _key_text(key)
    if len(text) > MAX_FACT_LENGTH:
        text = one_line(text, MAX_FACT_LENGTH)
    return f"{name}.{text}" if name and text else name or text


def _key_text(key: Any) -> str:
    """The text of a key; of an object only the plain arguments, because others may have endless contents."""
    if isinstance(key, Global):
        return key.path
    if isinstance(key, Stub):
        args = key.args[:8] if isinstance(key.args, tuple) else ()
        return f"{key.class_path}({', '.join(str(arg) for arg in args if type(arg) in _SCALARS)})"
    return str(key) if type(key) in _SCALARS else type(key).__name__


def _size(value: Any) -> int:
    """The number of items that visiting a value goes through."""
    if isinstance(value, Stub):
        return sum(map(_size, (value.args, value.state, value.items)))
    if isinstance(value, (list, tuple)):
        # The two dictionaries of a state are copied into one, which takes memory too.
        return len(value) + 4 * sum(len(item) for item in value[:2] if isinstance(item, dict))
    return len(value) if isinstance(value, dict) else 0


def _attributes(state: Any) -> dict[Any, Any]:
    """The attributes in an object's state, which is a dictionary or a pair of `__dict__` and slots."""
    if isinstance(state, dict):
        return state
    if isinstance(state, tuple) and len(state) == 2 and all(isinstance(part, (dict, type(None))) for part in state):
        return {key: value for part in state if part for key, value in part.items()}
    return {} if state is None else {"state": state}


def _is_module(stub: Stub, state: dict[Any, Any]) -> bool:
    return _is_scripted(stub) or all(isinstance(state.get(part), dict) for part in _OWN)


def _is_scripted(stub: Stub) -> bool:
    return isinstance(stub.cls, Global) and stub.cls.module.startswith(SCRIPTED)


def _of_module(
    name: str, state: dict[Any, Any], roles: Mapping[str, str] | None, own: Mapping[str, str] = _OWN
) -> Iterator[tuple[str, Any]]:
    """The items of a module, with the roles of those in its dictionaries.

    `roles` has the declared tensors of a scripted one, or is None if they are unknown.
    """
    for key, item in state.items():
        if key in own and isinstance(item, dict):
            for inner, value in item.items():
                yield _join(name, inner), _InModule(value, own[key])
        elif item is not None and not isinstance(item, (bool, int, float, str)):
            submodule = isinstance(item, Stub) and _is_scripted(item)
            yield _join(name, key), _InModule(item, "" if roles is None or submodule else roles.get(key, ATTRIBUTE))


def _of_object(name: str, stub: Stub, state: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, item in state.items():
        yield _join(name, key), item
    if isinstance(stub.args, tuple):
        for index, item in enumerate(stub.args):
            yield _join(name, index), item
    for index, item in enumerate(stub.items or ()):
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], (str, int)):
            yield _join(name, item[0]), item[1]
        else:
            yield _join(name, index), item


def _array_dtype(value: Any) -> tuple[str, bool]:
    """The dtype of a numpy array, and whether its numbers are byte-swapped."""
    if not isinstance(value, ArrayType):
        return "unknown", False
    code = value.code.lstrip("<>=|")
    swapped = value.order == ">" or value.code.startswith(">")
    return NUMPY.get(code, "unknown"), swapped
