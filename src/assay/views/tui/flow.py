"""What feeds a module and what it feeds, from the storages that captured operations read and wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from assay.document.document import Document
from assay.document.tree import shown

INPUTS = "(inputs of the model)"
MOST_CACHED = 4


class FlowEdge(Struct, frozen=True):
    """Memory that goes from one module to another."""

    other: str
    """The module at the other end: the outermost one that does not hold this one."""
    tensors: int
    """How often a tensor went this way."""
    bytes: int
    """Of the memory that went."""


class ModuleFlow(Struct, frozen=True):
    """Both ends of one module, most bytes first."""

    feeds_it: list[FlowEdge]
    fed_by_it: list[FlowEdge]


class _Edge(Struct, frozen=True):
    source: int
    """The module whose operation wrote it; -1 for an input of the model."""
    target: int
    storage: int


def flow(document: Document, module: int) -> ModuleFlow:
    """The streams into and out of everything inside `module`."""
    edges = _edges(_Held(document))
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
    return ModuleFlow(_streams(document, into), _streams(document, out))


class _Held:
    """A document as a key: documents are compared by identity here."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def __hash__(self) -> int:
        return id(self.document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.document is self.document


@lru_cache(maxsize=MOST_CACHED)
def _edges(held: _Held) -> list[_Edge]:
    """Every time an operation read what another module's operation wrote last."""
    document = held.document
    writer: dict[int, int] = {}
    edges = []
    for op in document.ops:
        here = document.module_of(op)
        for storage in dict.fromkeys(op.reads):
            source = writer.get(storage, -1)
            if source != here and document.storages[storage].role in ("activation", "input"):
                edges.append(_Edge(source, here, storage))
        for storage in op.writes:
            writer[storage] = here
    return edges


def _chain(parents: Sequence[int], module: int) -> set[int]:
    """A module and everything above it."""
    found = set()
    while module >= 0:
        found.add(module)
        module = parents[module]
    return found


def _name(document: Document, parents: Sequence[int], chain: set[int], module: int) -> str:
    """The outermost module around `module` that does not hold the one that is looked at."""
    if module < 0:
        return INPUTS
    while parents[module] >= 0 and parents[module] not in chain:
        module = parents[module]
    return shown(document.modules[module].path)


def _streams(document: Document, found: Mapping[str, set[int]]) -> list[FlowEdge]:
    streams = [
        FlowEdge(name, len(storages), sum(document.storages[at].bytes for at in storages))
        for name, storages in found.items()
    ]
    return sorted(streams, key=lambda stream: -stream.bytes)
