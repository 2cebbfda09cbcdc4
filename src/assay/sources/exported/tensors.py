"""The parameters and buffers of an exported program; names that refer to the same bytes are one tensor."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.checkpoint.formats.pt2_schema import GraphModule, TensorMeta
from assay.checkpoint.formats.pt2_values import SymbolicSizes
from assay.document.dtypes import nbytes
from assay.document.rows import Tensor
from assay.sources.exported.archive import Contents


class ProgramTensors(NamedTuple):
    """The tensors, and the index of the tensor for every name."""

    tensors: list[Tensor]
    by_name: dict[str, int]


class _Stored(NamedTuple):
    """A parameter or buffer of the program."""

    role: str
    meta: TensorMeta
    member: str | None
    """The archive member with the bytes; None if the archive does not record it."""


def collect(module: GraphModule, archived: Contents, sizes: SymbolicSizes) -> ProgramTensors:
    """The parameters and buffers in the program's signature or in the table of weights."""
    tensors: list[Tensor] = []
    by_name: dict[str, int] = {}
    by_key: dict[Any, int] = {}
    first_of: dict[str, int] = {}
    for name, stored in _named(module, archived).items():
        type = sizes.tensor_type(stored.meta)
        offset = sizes.number(stored.meta.storage_offset) if stored.meta.storage_offset else 0
        key = name if stored.member is None else (stored.member, offset, type, stored.role)
        if key in by_key:
            by_name[name] = index = by_key[key]
            tensors[index] = replace(tensors[index], names=(*tensors[index].names, name))
            continue
        by_name[name] = by_key[key] = len(tensors)
        shares = first_of.setdefault(stored.member, len(tensors)) if stored.member is not None else len(tensors)
        size = nbytes(math.prod(type.shape), type.dtype)
        other = shares if shares != len(tensors) else None
        tensors.append(Tensor((name,), stored.role, type, size, stored.meta.requires_grad, other))
    return ProgramTensors(tensors, by_name)


def _named(module: GraphModule, archived: Contents) -> dict[str, _Stored]:
    """The tensors in the order of the table of weights, then those that are only in the signature."""
    roles = _signature_roles(module)
    tensors: dict[str, _Stored] = {}
    for name, payload in archived.weights.items():
        role = roles[name][0] if name in roles else "parameter" if payload.is_param else "buffer"
        meta = payload.tensor_meta or _graph_meta(module, roles, name)
        if meta is not None:
            tensors[name] = _Stored(role, meta, f"weights/{payload.path_name}")
    for name, (role, _) in roles.items():
        constant = archived.constants.get(name)
        meta = _graph_meta(module, roles, name)
        if name not in tensors and meta is not None:
            tensors[name] = _Stored(role, meta, f"constants/{constant.path_name}" if constant else None)
    return tensors


def _signature_roles(module: GraphModule) -> dict[str, tuple[str, str]]:
    """Name → (role, name in the graph) of every parameter and buffer."""
    result: dict[str, tuple[str, str]] = {}
    for spec in module.signature.input_specs:
        for role in ("parameter", "buffer"):
            if role in spec:
                result[spec[role][f"{role}_name"]] = (role, spec[role]["arg"]["name"])
    return result


def _graph_meta(module: GraphModule, roles: dict[str, tuple[str, str]], name: str) -> TensorMeta | None:
    """The metadata of tensor `name` in the graph, or None."""
    return module.graph.tensor_values.get(roles[name][1]) if name in roles else None
