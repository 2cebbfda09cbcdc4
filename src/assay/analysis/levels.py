"""The data flow of a forward pass, one module at a time.

A level is one module: its nodes are the child modules it calls, its own ops, and what goes in and out; a flow is a
tensor that one node produces and others read. Views are passed through. Equal siblings that run in turn share a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from msgspec import Struct

from assay import units
from assay.analysis import folding
from assay.analysis.folding import FoldedRow
from assay.analysis.level_parts import OUTER, Edge, Parts, edges_of, key_of
from assay.analysis.name_ranges import fold_names
from assay.analysis.parameters import elements, sum_if_all_known
from assay.analysis.producers import OUTSIDE
from assay.analysis.repeats import grouped, grouped_loosely
from assay.document import tree
from assay.document.document import Document
from assay.document.dtypes import nbytes
from assay.document.rows import OpKind, TensorType

MODULE, OP, INPUT, OUTPUT, TENSOR = "module", "op", "input", "output", "tensor"
"""The kinds of node; a tensor is a parameter, buffer or constant that one of the module's own ops reads."""
_LEAST_RUN = 3
"""Fewer equal siblings in turn are shown one by one."""
LONG = 150
"""Above this number of nodes, turns that differ are folded too, and ops that repeat without a module among them."""
VARIES = "varies"
"""Stands for the shape if the members of a node have different numbers of dimensions or results."""
_LISTED = 2
"""Of more results than this, the others are counted."""


class Node(Struct, frozen=True):
    """A node of a level."""

    kind: str
    name: str
    """`conv1`, `layers.0–31`, `add`, or the name of an input or parameter."""
    detail: str
    """The class of a module; `parameter`, `buffer` or `constant` for a tensor; else empty."""
    shape: str
    """The shape of its result: `1x64x56x56`, `2–7x64` if it varies among the members; empty if it has none."""
    run: int = 1
    """Number of siblings, calls, ops or tensors that it stands for."""
    members: tuple[int, ...] = ()
    """The places of its ops or calls in each of `Level.ran`; empty for inputs, outputs and tensors."""


class Flow(Struct, frozen=True):
    """A tensor, or several alike, that one node produces and others read."""

    source: int
    targets: tuple[int, ...]
    """The nodes that read it, in order. One that is not after `source` reads it in the next turn of a run."""
    shape: str
    """Its shape as it is read."""
    dtype: str
    bytes: int | None
    """Bytes of all its tensors; None if a size is unknown."""
    tensors: int = 1


class Level(Struct, frozen=True):
    """The data flow inside one module, as its first call has it, or inside several modules that have the same."""

    paths: tuple[str, ...]
    """The modules that have it, in order of execution."""
    class_name: str
    nodes: tuple[Node, ...]
    """Inputs first, then in the order in which they ran, the output last."""
    flows: tuple[Flow, ...]
    ran: tuple[tuple[int, ...], ...]
    """Per path, what ran in order: an op of its own, or `~call` for a child module; without views."""
    calls: int = 1
    """How often each module was called."""
    views: int = 0
    """Number of its own ops that are passed through."""
    idle: tuple[str, ...] = ()
    """Child modules that were called and ran no op."""


def levels(document: Document) -> list[Level]:
    """The levels of the root and of every other module that calls modules or has several ops of its own."""
    parts = Parts(document)
    edges = edges_of(parts)
    alike: dict[Hashable, list[int]] = {}
    for frame, found in edges.items():
        alike.setdefault(key_of(parts, frame, found), []).append(frame)
    return [_Builder(parts, same[0], edges[same[0]]).level(same) for same in alike.values()]


_Id = tuple[int, int, int, int]
"""Identifies a node while its level is built; ids sort in the order of the nodes."""
_OUT: _Id = (2, 0, 0, 0)


class _Builder:
    """Builds one level: folds its items into nodes and its edges into flows."""

    def __init__(self, parts: Parts, frame: int, edges: Iterable[Edge]) -> None:
        self._parts = parts
        self._frame = frame
        self._module = parts.document.modules[parts.module(frame)]
        self._ran = parts.ran(frame)
        self._nodes: dict[_Id, Node] = {}
        self._id_of: dict[int, _Id] = {}
        self._flows: dict[tuple[_Id, tuple[_Id, ...], str], list[TensorType]] = {}
        groups = self._groups()
        for number, (group, name) in enumerate(zip(groups, self._names(groups), strict=True)):
            id = (1, number, 1, 0)
            self._nodes[id] = self._node(group, name)
            self._id_of |= {self._ran[place]: id for place in group}
        self._add_flows(list(edges))

    def level(self, same: Sequence[int]) -> Level:
        """The finished level, which all frames of `same` have."""
        order = {id: place for place, id in enumerate(sorted(self._nodes))}
        idle = [self._relative(self._parts.path(frame)) for frame in self._parts.idle.get(self._frame, [])]
        return Level(
            paths=tuple(map(self._parts.path, same)),
            class_name=self._module.class_name,
            nodes=tuple(self._nodes[id] for id in order),
            flows=tuple(
                _flow(order[source], tuple(order[target] for target in targets), types)
                for (source, targets, _), types in self._flows.items()
            ),
            ran=tuple(
                tuple(item if item >= 0 else ~(~item - 1) for item in self._parts.ran(frame)) for frame in same
            ),
            calls=1 if self._frame == OUTSIDE else self._parts.calls[self._parts.module(self._frame)],
            views=len(self._parts.items[self._frame]) - len(self._ran),
            idle=tuple(one.text for one in fold_names(dict.fromkeys(idle))),
        )

    def _groups(self) -> list[list[int]]:
        """The places of the items, equal ones that take turns together, in order of their first members."""
        tokens = [self._parts.token(item) for item in self._ran]
        modules = [place for place, item in enumerate(self._ran) if item < 0]
        groups = grouped(tokens, modules, _LEAST_RUN)
        if len(groups) > LONG:
            groups = min(groups, grouped_loosely(tokens, modules, _LEAST_RUN), key=len)
        if len(groups) > LONG:
            groups = min(groups, grouped(tokens, range(len(tokens)), _LEAST_RUN), key=len)
        return groups

    def _names(self, groups: list[list[int]]) -> list[str]:
        """The names of the groups; several calls of a module are numbered: `relu (2 of 3)`."""
        names = [self._name([self._ran[place] for place in group]) for group in groups]
        modules = [name if self._ran[group[0]] < 0 else None for name, group in zip(names, groups, strict=True)]
        total, so_far = Counter(modules), Counter[str | None]()
        for place, name in enumerate(modules):
            so_far[name] += 1
            if name is not None and total[name] > 1:
                names[place] = f"{name} ({so_far[name]} of {total[name]})"
        return names

    def _name(self, items: list[int]) -> str:
        parts = self._parts
        if items[0] >= 0:
            return units.op(parts.kind(items[0]).name).removeprefix("torch.").removeprefix("aten.")
        modules = tuple(dict.fromkeys(parts.module(~item) for item in items))
        above = parts.document.modules[modules[0]].path.rpartition(".")[0]
        local = folding.row_name(parts.names, FoldedRow(modules, len(modules), 0, None))
        return self._relative(f"{above}.{local}" if above else local)

    def _node(self, group: list[int], name: str) -> Node:
        """The node of the items at these places."""
        items = [self._ran[place] for place in group]
        if items[0] >= 0:
            made = [_made(self._parts.kind(op)) for op in items]
            return Node(OP, name, "", _results(made), len(group), tuple(group))
        calls = [self._parts.document.calls[~item - 1] for item in items]
        class_name = self._parts.document.modules[calls[0].module].class_name
        return Node(MODULE, name, class_name, _results([call.outputs for call in calls]), len(group), tuple(group))

    def _relative(self, path: str) -> str:
        """A module's or tensor's name as seen from this level's module."""
        inside = not self._module.path or path.startswith(f"{self._module.path}.")
        return tree.path_text(path.removeprefix(f"{self._module.path}.") if inside else path)

    def _add_flows(self, edges: list[Edge]) -> None:
        outer: dict[int, dict[int, set[_Id]]] = {}
        inner: dict[tuple[_Id, int], dict[int, set[_Id]]] = {}
        for source, target, producer, type in self._without_views(edges):
            reader = _OUT if target == OUTER else self._id_of[target]
            if source == OUTER:
                outer.setdefault(producer, {}).setdefault(type, set()).add(reader)
            elif self._id_of[source] != reader:
                inner.setdefault((self._id_of[source], producer), {}).setdefault(type, set()).add(reader)
        seen_as = {producer: type for source, _, producer, type in reversed(edges) if source == OUTER}
        self._add_outer(outer, seen_as)
        for (id, _), readers in inner.items():
            self._add(id, readers)
        if any(_OUT in targets for _, targets, _ in self._flows):
            made = [] if self._frame == OUTSIDE else [self._parts.document.calls[self._frame - 1].outputs]
            self._nodes[_OUT] = Node(OUTPUT, "output", "", _results(made))

    def _without_views(self, edges: list[Edge]) -> list[Edge]:
        """The edges with the source of a view in place of the view."""
        parts = self._parts
        bases = {target: (source, producer) for source, target, producer, _ in reversed(edges)}
        result: list[Edge] = []
        for source, target, producer, type in edges:
            if parts.is_passed(target):
                continue
            while parts.is_passed(source) and source in bases:
                source, producer = bases[source]
            if not parts.is_passed(source):
                result.append((source, target, producer, type))
        return result

    def _add_outer(self, outer: dict[int, dict[int, set[_Id]]], seen_as: dict[int, int]) -> None:
        """Add inputs and parameters as nodes; those with the same name, type and readers share one."""
        types = self._parts.producers.types
        alike: dict[object, list[int]] = {}
        for producer, readers in outer.items():
            name, role = self._parts.outer_name(producer)
            type = types[seen_as[producer]]
            if role == INPUT or elements(type) != 0:
                key = tuple((read_as, frozenset(ids)) for read_as, ids in readers.items())
                alike.setdefault((name, role, type, key), []).append(producer)
        for number, producers in enumerate(alike.values()):
            name, role = self._parts.outer_name(producers[0])
            readers = outer[producers[0]]
            first = min(min(ids) for ids in readers.values())
            shape = units.shape(types[seen_as[producers[0]]].shape)
            if role == INPUT:
                id, node = (0, first[1], 0, number), Node(INPUT, name, "", shape, len(producers))
            else:
                id, node = (1, first[1], 0, number), Node(TENSOR, self._relative(name), role, shape, len(producers))
            self._nodes[id] = node
            for _ in producers:
                self._add(id, readers)

    def _add(self, source: _Id, readers: dict[int, set[_Id]]) -> None:
        """Add the flows of one tensor, given its readers by the type they read."""
        returned = False
        for type, ids in readers.items():
            # The level returns a tensor once, however it is read outside.
            targets = tuple(sorted(ids - {_OUT} if returned else ids))
            returned = returned or _OUT in ids
            if targets:
                tensor = self._parts.producers.types[type]
                nodes = [self._nodes.get(id) for id in (source, *targets)]
                folded = any(node is not None and node.kind in (MODULE, OP) and node.run > 1 for node in nodes)
                label = tensor.dtype if folded else f"{tensor.dtype} {tensor.shape}"
                self._flows.setdefault((source, targets, label), []).append(tensor)


def _made(kind: OpKind) -> tuple[TensorType, ...]:
    """The types of an op's results; of what it writes into if it returns nothing."""
    outputs = tuple(each.type for each in kind.outputs)
    return outputs or tuple(each.type for each in kind.inputs if each.written)


def _flow(source: int, targets: tuple[int, ...], types: Sequence[TensorType]) -> Flow:
    sizes = [None if (count := elements(type)) is None else nbytes(count, type.dtype) for type in types]
    return Flow(source, targets, _joined(types), types[0].dtype, sum_if_all_known(sizes), len(types))


def _results(several: Sequence[Sequence[TensorType]]) -> str:
    """The shapes of the results of one or more equal items."""
    if len({len(types) for types in several}) != 1:
        return VARIES if several else ""
    shapes = [_joined(types) for types in zip(*several, strict=True)]
    more = len(shapes) - _LISTED
    return ", ".join(shapes[:_LISTED]) + (f" +{more}" if more > 0 else "")


def _joined(types: Sequence[TensorType]) -> str:
    """One shape for several; sizes that differ are written as a range: `2–7x64`."""
    if len({len(type.shape) for type in types}) > 1:
        return VARIES
    dims = zip(*(type.shape for type in types), strict=True)
    return units.shape(sizes[0] if len(set(sizes)) == 1 else f"{min(sizes)}–{max(sizes)}" for sizes in dims)
