"""What a model consists of before it runs: its modules, parameters and buffers, shared ones once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from assay.document.rows import Module, Tensor, TensorType
from assay.recorder import config, quantized

_LOADED_FROM_A_FILE = re.compile(r"^__user(_\d+)?__\.")
"""What modules of a user's file are prefixed with while they are loaded; no part of their name."""

_PLAIN_TENSORS = (torch.Tensor, nn.Parameter)
"""Only subclasses have sizes that are no integers."""

SPARSE_LAYOUTS = {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}

_MOST_ALIASES = 100
"""Sharing inside sharing multiplies paths; nobody reads more than these."""


class Inventory(NamedTuple):
    """The rows, and the live objects they describe (by id, kept alive by the caller's model)."""

    modules: list[Module]
    tensors: list[Tensor]
    module_index: dict[int, int]
    """`id(module)` → row."""
    live_tensors: list[torch.Tensor]
    """In the order of `tensors`, which go on with those that are packed."""


class _Node(NamedTuple):
    path: str
    module: nn.Module
    parent: int | None


class _Found(NamedTuple):
    """A parameter or buffer: one, however many names it has."""

    row: int
    tensor: torch.Tensor
    role: str
    names: list[str]


def take(model: nn.Module) -> Inventory:
    """The inventory of `model`; nothing of it is executed."""
    nodes, aliases = _walk(model)
    found: dict[int, _Found] = {}
    modules = []
    for node in nodes:
        own = {}
        for name, role, tensor in entries(node.module):
            known = found.setdefault(id(tensor), _Found(len(found), tensor, role, []))
            known.names.append(_joined(node.path, name))
            own[name] = known.row
        modules.append(describe(node.module, node.path, node.parent, own, tuple(aliases.get(id(node.module), ()))))
    index = {id(node.module): position for position, node in enumerate(nodes)}
    rows = _rows(found.values())
    _add_packed(nodes, modules, rows)
    return Inventory(modules, rows, index, [each.tensor for each in found.values()])


def _rows(found: Iterable[_Found]) -> list[Tensor]:
    storages: dict[int, int] = {}
    rows = []
    for row, tensor, role, names in found:
        storage = tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)
        first = storages.setdefault(storage, row)
        shared = first if first != row else None
        looks, size = tensor_type(tensor), size_in_bytes(tensor)
        rows.append(Tensor(tuple(names), role, looks, size, tensor.requires_grad, shared))
    return rows


def _add_packed(nodes: list[_Node], modules: list[Module], rows: list[Tensor]) -> None:
    """Rows, after those of the live tensors, for the weights that quantized modules of torch keep packed."""
    for position, node in enumerate(nodes):
        for name, tensor in quantized.unpacked(node.module):
            modules[position].tensors[name] = len(rows)
            rows.append(Tensor((_joined(node.path, name),), "parameter", tensor_type(tensor), size_in_bytes(tensor)))


class Members(NamedTuple):
    """Every module and every parameter and buffer of a model, each once."""

    modules: list[nn.Module]
    tensors: list[torch.Tensor]


def members(model: nn.Module) -> Members:
    """Every module and every parameter and buffer of `model`, each once."""
    modules = [node.module for node in _walk(model)[0]]
    tensors = {id(tensor): tensor for module in modules for _, _, tensor in entries(module)}
    return Members(modules, list(tensors.values()))


def describe(
    module: nn.Module, path: str, parent: int | None, tensors: dict[str, int], aliases: tuple[str, ...] = ()
) -> Module:
    """The row of one module."""
    cls = type(module)
    scripted = isinstance(module, torch.jit.ScriptModule)
    name = getattr(module, "original_name", cls.__name__) if scripted else cls.__name__
    return Module(
        path=path,
        class_name=name,
        class_path=f"{_LOADED_FROM_A_FILE.sub('', cls.__module__)}.{name if scripted else cls.__qualname__}",
        parent=parent,
        config=config.read(module),
        tensors=tensors,
        aliases=aliases,
        training=module.training,
    )


def tensors_among(values: Any) -> list[torch.Tensor]:
    """The tensors in nested containers, as pytrees see them."""
    return [leaf for leaf in tree_flatten(values)[0] if isinstance(leaf, torch.Tensor)]


def entries(module: nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Name, role and tensor of every parameter and buffer that `module` itself holds."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, "parameter", parameter
    for name, buffer in module._buffers.items():
        if buffer is not None:
            yield name, "buffer", buffer


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """How `tensor` looks from outside."""
    dtype = dtype_name(tensor.dtype)
    if tensor.layout is not torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return TensorType(sizes(tensor), dtype, None, layout, _stored(tensor))
    strides = None if tensor.is_contiguous() else tuple(tensor.stride())
    return TensorType(sizes(tensor), dtype, strides)


def sizes(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape in plain integers; a ragged dimension is -1."""
    if type(tensor) in _PLAIN_TENSORS:
        return tuple(tensor.shape)
    return tuple(size if type(size) is int else _plain_size(size) for size in tensor.shape)


@cache
def dtype_name(dtype: torch.dtype) -> str:
    """`dtype_name(torch.float32) == "float32"`."""
    return str(dtype).removeprefix("torch.")


def size_in_bytes(tensor: torch.Tensor) -> int:
    """The bytes the tensor's elements take."""
    if tensor.layout is torch.strided:
        return int(tensor.numel() * tensor.element_size())
    stored = _stored(tensor)
    return 0 if stored is None else stored * tensor.element_size()


def _plain_size(size: Any) -> int:
    node = getattr(size, "node", None)
    return -1 if node is not None and node.is_nested_int() else int(size)


def _stored(tensor: torch.Tensor) -> int | None:
    if tensor.layout not in SPARSE_LAYOUTS or tensor.is_meta:
        return None
    return int(tensor._values().numel() if tensor.layout is torch.sparse_coo else tensor.values().numel())


def _walk(model: nn.Module) -> tuple[list[_Node], dict[int, list[str]]]:
    """Every module once, parents first, with the further paths of shared ones and of what they contain."""
    nodes: list[_Node] = []
    aliases: dict[int, list[str]] = {}
    position: dict[int, int] = {}
    stack: list[_Node] = [_Node("", model, None)]
    while stack:
        node = stack.pop()
        if id(node.module) in position:
            _name_again(node.path, node.module, aliases)
            continue
        position[id(node.module)] = index = len(nodes)
        nodes.append(node)
        stack.extend(_Node(path, child, index) for path, child in reversed(children(node.path, node.module)))
    return nodes, aliases


def children(path: str, module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules that `module`, which stands at `path`, holds itself, with their paths."""
    return [(_joined(path, name), child) for name, child in module._modules.items() if child is not None]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _name_again(path: str, module: nn.Module, aliases: dict[int, list[str]]) -> None:
    """Note further paths of a shared module and of everything below it; a cycle is followed once."""
    above: frozenset[int] = frozenset()
    stack = [(path, module, above)]
    while stack:
        path, module, above = stack.pop()
        names = aliases.setdefault(id(module), [])
        if id(module) in above or len(names) == _MOST_ALIASES:
            continue
        names.append(path)
        below = above | {id(module)}
        stack.extend((name, child, below) for name, child in reversed(children(path, module)))
