"""The parts of each level before they are folded: what ran in a module call, and the edges between.

An item is an op, `~frame` of a child call, or `OUTER` for everything outside. A frame is a module call: see `Frames`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from assay.analysis import folding
from assay.analysis.folding import TreeNode
from assay.analysis.parameters import tensor_storages
from assay.analysis.producers import END, OUTSIDE, Frames, Producers, frames, passes_through
from assay.analysis.uniques.canonical import canonical
from assay.document.document import Document
from assay.document.rows import OpKind, TensorType

OUTER = -1
"""Everything outside the level, as the source or target of an edge."""
_KEPT = frozenset({"parameter", "buffer", "constant"})
"""The roles of memory that belongs to the model."""

Edge = tuple[int, int, int, int]
"""Source and target item, the producer as in `Read.source`, and the type as it is read."""


class Parts:
    """What ran in each frame, and how it is named."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.frames: Frames = frames(document)
        self.producers = Producers(document, self.frames)
        self.passes = [passes_through(kind) for kind in document.kinds]
        self.items = self._items()
        self.idle = self._idle()
        self.calls = Counter(call.module for call in document.calls)
        outputs: dict[tuple[TensorType, ...], int] = {}
        self.outputs = [outputs.setdefault(call.outputs, len(outputs)) for call in document.calls]
        self.names, self.rows = _fold(document)
        self.tensor_names = {
            storage: document.tensors[tensor].names[0]
            for tensor, storage in reversed(tensor_storages(document).items())
        }
        self.input_names = self._input_names()

    def kind(self, op: int) -> OpKind:
        return self.document.kinds[self.document.ops[op].kind]

    def module(self, frame: int) -> int:
        return self.document.calls[frame - 1].module if frame != OUTSIDE else 0

    def path(self, frame: int) -> str:
        return self.document.modules[self.module(frame)].path

    def ran(self, frame: int) -> list[int]:
        """The items of a frame that are not passed through."""
        return [item for item in self.items[frame] if not self.is_passed(item)]

    def token(self, item: int) -> Hashable:
        """What is equal for items that can share a node: equal siblings, or ops with the same name."""
        if item >= 0:
            return self.kind(item).target
        module = self.module(~item)
        return self.rows[module], self.document.modules[module].parent

    def outer_name(self, producer: int) -> tuple[str, str]:
        """Name and role of a tensor from outside the level, given its producer as in `Read.source`."""
        if producer >= 0:
            return "input", "input"
        role = self.document.storages[~producer].role
        if role in _KEPT:
            return self.tensor_names.get(~producer, role), role
        return self.input_names.get(~producer, "input"), "input"

    def is_passed(self, item: int) -> bool:
        """Whether the item is an op whose output is its input's data."""
        return item >= 0 and self.passes[self.document.ops[item].kind]

    def shown(self) -> list[int]:
        """The frames to show: the pass itself, and of each module with inner structure the first call with ops."""
        first: dict[int, int] = {}
        for frame in sorted(self.items):
            if frame != OUTSIDE or self.frames.top == OUTSIDE:
                first.setdefault(self.module(frame), frame)
        return [frame for module, frame in first.items() if module == 0 or self._has_structure(frame)]

    def _has_structure(self, frame: int) -> bool:
        real = self.ran(frame)
        return len(real) > 1 or any(item < 0 for item in real)

    def _items(self) -> dict[int, list[int]]:
        """Per frame that ran an op, its own ops and child calls in order of execution."""
        result: dict[int, list[int]] = {}
        for op, frame in enumerate(self.frames.of_op):
            item, at = op, frame
            while at not in result:
                result[at] = [item]
                if at == OUTSIDE:
                    break
                item, at = ~at, self.frames.parent[at]
            else:
                result[at].append(item)
        return result

    def _idle(self) -> dict[int, list[int]]:
        """Per frame, its child calls that ran no op."""
        result: dict[int, list[int]] = {}
        for frame in range(1, len(self.frames.parent)):
            if frame not in self.items:
                result.setdefault(self.frames.parent[frame], []).append(frame)
        return result

    def _input_names(self) -> dict[int, str]:
        """The argument's name of each storage that was passed in; empty if there is one, or they are unclear."""
        given = [index for index, storage in enumerate(self.document.storages) if storage.role == "input"]
        names = [each.name for each in self.document.run.inputs]
        return dict(zip(given, names, strict=True)) if len(given) == len(names) > 1 else {}


def _fold(document: Document) -> tuple[list[TreeNode], list[int]]:
    """The module tree as folding sees it, and per module the row that it shares with its equal siblings."""
    tensors = [(each.type.shape, each.type.dtype, each.role) for each in document.tensors]
    nodes = [
        TreeNode(
            module.path.rpartition(".")[2],
            module.parent,
            (
                module.class_path,
                canonical(module.config),
                tuple((name, tensors[at]) for name, at in module.tensors.items()),
            ),
            module.class_path,
        )
        for module in document.modules
    ]
    rows = [0] * len(nodes)
    for number, row in enumerate(folding.fold(nodes, gaps=True)):
        for member in row.members:
            rows[member] = number
    return nodes, rows


def edges_of(parts: Parts) -> dict[int, dict[Edge, None]]:
    """Per frame that is shown, its edges in order of the reads."""
    parent, of_op, top = parts.frames.parent, parts.frames.of_op, parts.frames.top
    found: dict[int, dict[Edge, None]] = {frame: {} for frame in parts.shown()}
    kept = [storage.role in _KEPT for storage in parts.document.storages]
    for source, reader, type in parts.producers.reads():
        if source < 0 and kept[~source]:
            if of_op[reader] in found:
                found[of_op[reader]][OUTER, reader, source, type] = None
            continue
        if reader == END:
            common, item = parent[top] if top != OUTSIDE else OUTER, OUTER
        else:
            common = parts.frames.common(of_op[source], of_op[reader]) if source >= 0 else OUTER
            item, at = reader, of_op[reader]
            while at != common:
                if at in found:
                    found[at][OUTER, item, source, type] = None
                item, at = ~at, parent[at] if at != OUTSIDE else OUTER
        if source < 0:
            continue
        made, at = source, of_op[source]
        while at != common:
            if at in found:
                found[at][made, OUTER, source, type] = None
            made, at = ~at, parent[at] if at != OUTSIDE else OUTER
        if common in found and reader != END:
            found[common][made, item, source, type] = None
    return found


def key_of(parts: Parts, frame: int, edges: Iterable[Edge]) -> Hashable:
    """What is equal for modules with the same level."""
    module = parts.document.modules[parts.module(frame)]
    prefix = f"{module.path}." if module.path else ""
    tokens: dict[Hashable, int] = {}
    place = {item: number for number, item in enumerate(parts.items[frame])}
    place[OUTER] = OUTER
    producers: dict[int, int] = {}
    return (
        module.class_name,
        parts.calls[parts.module(frame)],
        tuple(_item_key(parts, item, prefix, tokens) for item in place if item != OUTER),
        tuple(
            (place[source], place[target], producers.setdefault(producer, len(producers)), type)
            for source, target, producer, type in edges
        ),
        tuple((name.removeprefix(prefix), role) for name, role in map(parts.outer_name, producers)),
        tuple(parts.path(inner).removeprefix(prefix) for inner in parts.idle.get(frame, ())),
    )


def _item_key(parts: Parts, item: int, prefix: str, tokens: dict[Hashable, int]) -> Hashable:
    """What is equal for the same item of two levels; `tokens` numbers the tokens of a level."""
    if item >= 0:
        return parts.document.ops[item].kind
    path, class_name = parts.path(~item), parts.document.modules[parts.module(~item)].class_name
    token = tokens.setdefault(parts.token(item), len(tokens))
    return path.removeprefix(prefix), class_name, parts.outputs[~item - 1], token
