"""The parameters and buffers of an exported program; names that share their bytes are one tensor."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.checkpoint.formats.pt2_schema import GraphModule, TensorMeta
from assay.checkpoint.formats.pt2_values import SymbolicSizes
from assay.document.dtypes import nbytes
from assay.document.rows import Tensor
from assay.sources.exported.archive import Contents


class Stock(NamedTuple):
    """The rows and, for every name, its row."""

    tensors: list[Tensor]
    by_name: dict[str, int]


class _Found(NamedTuple):
    role: str
    meta: TensorMeta
    place: str | None
    """Where the bytes lie, where the archive says so."""


def take(module: GraphModule, held: Contents, sizes: SymbolicSizes) -> Stock:
    """Every parameter and buffer that the signature or the weights' table names."""
    tensors: list[Tensor] = []
    by_name: dict[str, int] = {}
    same: dict[Any, int] = {}
    first_of: dict[str, int] = {}
    for name, found in _named(module, held).items():
        type = sizes.tensor_type(found.meta)
        offset = sizes.number(found.meta.storage_offset) if found.meta.storage_offset else 0
        key = name if found.place is None else (found.place, offset, type, found.role)
        if key in same:
            by_name[name] = index = same[key]
            tensors[index] = replace(tensors[index], names=(*tensors[index].names, name))
            continue
        by_name[name] = same[key] = len(tensors)
        shares = first_of.setdefault(found.place, len(tensors)) if found.place is not None else len(tensors)
        size = nbytes(math.prod(type.shape), type.dtype)
        other = shares if shares != len(tensors) else None
        tensors.append(Tensor((name,), found.role, type, size, found.meta.requires_grad, other))
    return Stock(tensors, by_name)


def _named(module: GraphModule, held: Contents) -> dict[str, _Found]:
    """The tensors in the weights' own order, then those that only the signature names."""
    roles = _signature_roles(module)
    found: dict[str, _Found] = {}
    for name, payload in held.weights.items():
        role = roles[name][0] if name in roles else "parameter" if payload.is_param else "buffer"
        meta = payload.tensor_meta or _graph_meta(module, roles, name)
        if meta is not None:
            found[name] = _Found(role, meta, f"weights/{payload.path_name}")
    for name, (role, _) in roles.items():
        constant = held.constants.get(name)
        meta = _graph_meta(module, roles, name)
        if name not in found and meta is not None:
            found[name] = _Found(role, meta, f"constants/{constant.path_name}" if constant else None)
    return found


def _signature_roles(module: GraphModule) -> dict[str, tuple[str, str]]:
    """Name → (role, name in the graph) of every parameter and buffer."""
    result: dict[str, tuple[str, str]] = {}
    for spec in module.signature.input_specs:
        for role in ("parameter", "buffer"):
            if role in spec:
                result[spec[role][f"{role}_name"]] = (role, spec[role]["arg"]["name"])
    return result


def _graph_meta(module: GraphModule, roles: dict[str, tuple[str, str]], name: str) -> TensorMeta | None:
    return module.graph.tensor_values.get(roles[name][1]) if name in roles else None
