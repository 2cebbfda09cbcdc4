"""Tensor flow between modules, from the storages that recorded ops read and wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from assay.document.document import Document
from assay.document.tree import path_text

INPUTS = "(inputs of the model)"
MAX_CACHED = 4
"""Documents whose edges are kept in memory."""


class FlowEdge(Struct, frozen=True):
    """The tensors that flow between the selected module and another one."""

    other: str
    """The other module: the outermost one that does not contain the selected module."""
    tensors: int
    """The number of tensors."""
    bytes: int
    """The size of their storages."""


class ModuleFlow(Struct, frozen=True):
    """The edges into and out of one module, most bytes first."""

    inputs: list[FlowEdge]
    outputs: list[FlowEdge]


class _Edge(Struct, frozen=True):
    source: int
    """The module whose op wrote the storage; -1 for an input of the model."""
    target: int
    storage: int


def flow(document: Document, module: int) -> ModuleFlow:
    """The tensors that flow into and out of `module`, its submodules included."""
    edges = _edges(_DocumentKey(document))
    parents = [-1 if row.parent is None else row.parent for row in document.modules]
    chain = _chain(parents, module)
    into: dict[str, set[int]] = {}
    out: dict[str, set[int]] = {}
    for edge in edges:
        source_inside, target_inside = (module in _chain(parents, end) for end in (edge.source, edge.target))
        if target_inside and not source_inside:
            into.setdefault(_name(document, parents, chain, edge.source), set()).add(edge.storage)
        elif source_inside and not target_inside:
            out.setdefault(_name(document, parents, chain, edge.target), set()).add(edge.storage)
    return ModuleFlow(_flow_edges(document, into), _flow_edges(document, out))


class _DocumentKey:
    """A document as a cache key, compared by identity."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def __hash__(self) -> int:
        return id(self.document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DocumentKey) and other.document is self.document


@lru_cache(maxsize=MAX_CACHED)
def _edges(key: _DocumentKey) -> list[_Edge]:
    """One edge for every read of a storage that an op of another module wrote last."""
    document = key.document
    writer: dict[int, int] = {}
    edges = []
    for op in document.ops:
        reader = document.module_of(op)
        for storage in dict.fromkeys(op.reads):
            source = writer.get(storage, -1)
            if source != reader and document.storages[storage].role in ("activation", "input"):
                edges.append(_Edge(source, reader, storage))
        for storage in op.writes:
            writer[storage] = reader
    return edges


def _chain(parents: Sequence[int], module: int) -> set[int]:
    """A module and its ancestors."""
    chain = set()
    while module >= 0:
        chain.add(module)
        module = parents[module]
    return chain


def _name(document: Document, parents: Sequence[int], chain: set[int], module: int) -> str:
    """The path of the outermost ancestor of `module` (or itself) that is not in `chain`."""
    if module < 0:
        return INPUTS
    while parents[module] >= 0 and parents[module] not in chain:
        module = parents[module]
    return path_text(document.modules[module].path)


def _flow_edges(document: Document, storages_of: Mapping[str, set[int]]) -> list[FlowEdge]:
    edges = [
        FlowEdge(name, len(storages), sum(document.storages[at].bytes for at in storages))
        for name, storages in storages_of.items()
    ]
    return sorted(edges, key=lambda edge: -edge.bytes)
