"""The inventory of a model before it runs: its modules, parameters and buffers, each listed once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten

from assay.checkpoint.formats.torchscript import demangled_name
from assay.document.rows import Module, Tensor, TensorType
from assay.recorder import config, nested, quantized

_USER_FILE_PREFIX = re.compile(r"^__user(_\d+)?__\.")
"""The prefix of modules loaded from a user's file, which is not part of their name."""

_PLAIN_TENSORS = (torch.Tensor, nn.Parameter)
"""Types whose sizes are always integers; only subclasses have symbolic sizes."""

SPARSE_LAYOUTS = {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}

_MAX_ALIASES = 100
"""Most paths listed per shared module: nested sharing multiplies the number of paths."""


class Inventory(NamedTuple):
    """The rows, and the live objects they describe (by id; the caller's model keeps them alive)."""

    modules: list[Module]
    tensors: list[Tensor]
    module_index: dict[int, int]
    """`id(module)` → index in `modules`."""
    live_tensors: list[torch.Tensor]
    """In the order of `tensors`, which also has the packed weights after these."""


class _Node(NamedTuple):
    path: str
    module: nn.Module
    parent: int | None


class _NamedTensor(NamedTuple):
    """A parameter or buffer with all its names."""

    row: int
    tensor: torch.Tensor
    role: str
    names: list[str]


def take_inventory(model: nn.Module) -> Inventory:
    """The inventory of `model`; no code of the model is executed."""
    nodes, aliases = _walk(model)
    named: dict[int, _NamedTensor] = {}
    modules = []
    for node in nodes:
        own = {}
        for name, role, tensor in entries(node.module):
            entry = named.setdefault(id(tensor), _NamedTensor(len(named), tensor, role, []))
            entry.names.append(_joined(node.path, name))
            own[name] = entry.row
        modules.append(describe(node.module, node.path, node.parent, own, tuple(aliases.get(id(node.module), ()))))
    index = {id(node.module): position for position, node in enumerate(nodes)}
    rows = _rows(named.values())
    _add_packed(nodes, modules, rows)
    return Inventory(modules, rows, index, [entry.tensor for entry in named.values()])


def _rows(named: Iterable[_NamedTensor]) -> list[Tensor]:
    """The rows of the tensors; one that shares its storage refers to the first row with that storage."""
    storages: dict[int, int] = {}
    rows = []
    for row, tensor, role, names in named:
        storage = tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)
        first = storages.setdefault(storage, row)
        shared = first if first != row else None
        type_, size = tensor_type(tensor), size_in_bytes(tensor)
        rows.append(Tensor(tuple(names), role, type_, size, tensor.requires_grad, shared))
    return rows


def _add_packed(nodes: list[_Node], modules: list[Module], rows: list[Tensor]) -> None:
    """Append rows for the weights that torch's quantized modules store in packed form."""
    for position, node in enumerate(nodes):
        for name, tensor in quantized.unpacked(node.module):
            modules[position].tensors[name] = len(rows)
            rows.append(Tensor((_joined(node.path, name),), "parameter", tensor_type(tensor), size_in_bytes(tensor)))


class Members(NamedTuple):
    """All modules, and all parameters and buffers, of a model, each once."""

    modules: list[nn.Module]
    tensors: list[torch.Tensor]


def members(model: nn.Module) -> Members:
    """All modules, and all parameters and buffers, of `model`, each once."""
    modules = [node.module for node in _walk(model)[0]]
    tensors = {id(tensor): tensor for module in modules for _, _, tensor in entries(module)}
    return Members(modules, list(tensors.values()))


def describe(
    module: nn.Module, path: str, parent: int | None, tensors: dict[str, int], aliases: tuple[str, ...] = ()
) -> Module:
    """The row of one module."""
    class_name, class_path = _class_of(module)
    return Module(
        path=path,
        class_name=class_name,
        class_path=_USER_FILE_PREFIX.sub("", class_path),
        parent=parent,
        config=config.read(module),
        tensors=tensors,
        aliases=aliases,
        training=is_training(module),
        scripted=isinstance(module, torch.jit.ScriptModule),
    )


def _class_of(module: nn.Module) -> tuple[str, str]:
    """The name and the full name of the module's class; for TorchScript, of the class it was made from."""
    cls = type(module)
    if not isinstance(module, torch.jit.ScriptModule):
        return cls.__name__, f"{cls.__module__}.{cls.__qualname__}"
    place, _, name = demangled_name(module._c._type().qualified_name()).rpartition(".")
    return name, f"{place or '__main__'}.{name}"


def is_training(module: nn.Module) -> bool:
    """Whether the module is in training mode; frozen TorchScript has no modes, and runs as in evaluation."""
    return bool(getattr(module, "training", False))


def tensors_among(values: Any) -> list[torch.Tensor]:
    """The tensors in nested containers, in pytree order."""
    return [leaf for leaf in tree_flatten(values)[0] if isinstance(leaf, torch.Tensor)]


def entries(module: nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Name, role and tensor of every parameter and buffer of `module` itself, without submodules."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, "parameter", parameter
    for name, buffer in module._buffers.items():
        if buffer is not None:
            yield name, "buffer", buffer


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """The type of `tensor`: shape, dtype, strides if not contiguous, layout, and components if it is nested."""
    if tensor.is_nested:
        return _nested_type(tensor)
    dtype = dtype_name(tensor.dtype)
    if tensor.layout is not torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return TensorType(sizes(tensor), dtype, None, layout, _stored(tensor))
    strides = None if tensor.is_contiguous() else tuple(tensor.stride())
    return TensorType(sizes(tensor), dtype, strides)


def _nested_type(tensor: torch.Tensor) -> TensorType:
    with _disable_current_modes():  # reading the layout of a jagged tensor is an op
        layout = str(tensor.layout).removeprefix("torch.")
        return TensorType(
            sizes(tensor), dtype_name(tensor.dtype), layout=layout, components=nested.components(tensor)
        )


def sizes(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape in plain integers; a ragged dimension is -1."""
    if type(tensor) in _PLAIN_TENSORS:
        return nested.sizes(tensor) if tensor.is_nested else tuple(tensor.shape)
    return tuple(size if type(size) is int else _plain_size(size) for size in tensor.shape)


@cache
def dtype_name(dtype: torch.dtype) -> str:
    """`dtype_name(torch.float32) == "float32"`."""
    return str(dtype).removeprefix("torch.")


def size_in_bytes(tensor: torch.Tensor) -> int:
    """The size of the tensor's stored elements in bytes; 0 for a sparse tensor without data."""
    if tensor.layout not in SPARSE_LAYOUTS:
        return int(tensor.numel() * tensor.element_size())
    stored = _stored(tensor)
    return 0 if stored is None else stored * tensor.element_size()


def _plain_size(size: Any) -> int:
    """A symbolic size as an integer; -1 for a ragged dimension."""
    node = getattr(size, "node", None)
    return -1 if node is not None and node.is_nested_int() else int(size)


def _stored(tensor: torch.Tensor) -> int | None:
    """The number of stored elements of a sparse tensor; None if unknown."""
    if tensor.layout not in SPARSE_LAYOUTS or tensor.is_meta:
        return None
    return int(tensor._values().numel() if tensor.layout is torch.sparse_coo else tensor.values().numel())


def _walk(model: nn.Module) -> tuple[list[_Node], dict[int, list[str]]]:
    """Every module once, parents first, and the additional paths of shared modules and their submodules."""
    nodes: list[_Node] = []
    aliases: dict[int, list[str]] = {}
    position: dict[int, int] = {}
    stack: list[_Node] = [_Node("", model, None)]
    while stack:
        node = stack.pop()
        if id(node.module) in position:
            _add_aliases(node.path, node.module, aliases)
            continue
        position[id(node.module)] = index = len(nodes)
        nodes.append(node)
        stack.extend(_Node(path, child, index) for path, child in reversed(children(node.path, node.module)))
    return nodes, aliases


def children(path: str, module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The direct submodules of `module`, which is at `path`, with their paths."""
    return [(_joined(path, name), child) for name, child in module._modules.items() if child is not None]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _add_aliases(path: str, module: nn.Module, aliases: dict[int, list[str]]) -> None:
    """Add the paths of a shared module and its submodules to `aliases`; a cycle is followed once."""
    above: frozenset[int] = frozenset()
    stack = [(path, module, above)]
    while stack:
        path, module, above = stack.pop()
        names = aliases.setdefault(id(module), [])
        if id(module) in above or len(names) == _MAX_ALIASES:
            continue
        names.append(path)
        below = above | {id(module)}
        stack.extend((name, child, below) for name, child in reversed(children(path, module)))
