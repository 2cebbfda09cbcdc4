"""Which op produced each tensor that an op reads: through storages, with views in between.

A read is of the last op that wrote the storage, or of the view of it that has exactly the type that is read. A view
made inside a module call is visible outside it only if the call returned a tensor of that type; a view of the type
that was written, such as that of a dropout in evaluation mode, only if the call wrote nothing that it could return.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from assay.analysis.flow import is_view
from assay.document.document import Document
from assay.document.rows import Call, OpKind, TensorType

OUTSIDE = 0
"""The frame of ops outside any call."""
END = -1
"""The reader of what the model returns."""
_RELABELLED = frozenset({"aten.detach_", "aten.requires_grad_", "aten.squeeze_", "aten.unsqueeze_", "aten.t_"})
_RELABELLED |= {"aten.transpose_", "aten.swapaxes_", "aten.swapdims_", "aten.as_strided_"}
"""In-place ops that change how a tensor is read but write nothing."""


class Frames(NamedTuple):
    """The module calls as a tree: frame 0 is outside any call, frame n + 1 is call n; parents come first."""

    parent: list[int]
    depth: list[int]
    of_op: list[int]
    """The innermost frame of each op."""
    top: int
    """The frame of the whole pass: that of the root module's call if this is the only outermost call."""

    def common(self, one: int, two: int) -> int:
        """The innermost frame around both."""
        parent, depth = self.parent, self.depth
        while one != two:
            if depth[one] >= depth[two]:
                one = parent[one]
            else:
                two = parent[two]
        return one


def frames(document: Document) -> Frames:
    """The frames of the forward pass; ops outside any call belong to the root's call if there is only this one."""
    parent, depth = [OUTSIDE], [0]
    for call in document.calls:
        above = OUTSIDE if call.parent is None else call.parent + 1
        parent.append(above)
        depth.append(depth[above] + 1)
    outermost = [index for index, call in enumerate(document.calls) if call.parent is None]
    is_one = bool(outermost) and all(document.calls[index].module == 0 for index in outermost)
    top = outermost[0] + 1 if is_one else OUTSIDE
    return Frames(parent, depth, [op.call + 1 if op.call >= 0 else top for op in document.ops], top)


def passes_through(kind: OpKind) -> bool:
    """Whether the op only makes views or changes how a tensor is read: its output is its input's data."""
    return is_view(kind) or kind.target.rpartition(".")[0] in _RELABELLED


class Read(NamedTuple):
    """A tensor that an op reads."""

    source: int
    """The op that produced it; `~storage` for memory that existed before the pass."""
    reader: int
    """The op that reads it; `END` for a tensor that the model returns."""
    type: int
    """Its shape and dtype as it is read, as an index into `Producers.types`."""


class Producers:
    """Finds the producers of the tensors that the ops of a forward pass read, in one pass over the ops."""

    def __init__(self, document: Document, tree: Frames) -> None:
        self._document = document
        self._tree = tree
        self.types: list[TensorType] = []
        """The distinct types of tensors."""
        self._numbers: dict[TensorType, int] = {}
        self._returned: dict[int, frozenset[int]] = {}
        self._writer: dict[int, int] = {}
        self._written_type: dict[int, int] = {}
        self._views: dict[int, dict[int, int]] = {}
        self._writing = self._writing_frames()

    def reads(self) -> Iterator[Read]:
        """All reads in execution order, and at last those of the model's result."""
        kinds = [self._kind(kind) for kind in self._document.kinds]
        for index, op in enumerate(self._document.ops):
            kind = kinds[op.kind]
            frame = self._tree.of_op[index]
            for at, type in kind.read:
                if at < len(op.reads):
                    yield Read(self._source(op.reads[at], type, frame), index, type)
            if kind.passes:
                for at, type in kind.made:
                    if at < len(op.reads):
                        self._views.setdefault(op.reads[at], {})[type] = index
            else:
                for type, storage in zip(kind.written, op.writes, strict=False):
                    self._writer[storage] = index
                    self._written_type[storage] = type
                    self._views.pop(storage, None)
        yield from self._result()

    def _kind(self, kind: OpKind) -> _Kind:
        inputs = [self._number(operand.type) for operand in kind.inputs]
        if passes_through(kind):
            # An argument that only gives the shape, as in `view_as`, is not passed on.
            made = [(each.alias, self._number(each.type)) for each in kind.outputs if each.alias is not None]
            return _Kind(True, [(at, inputs[at]) for at in dict(made)], made, [])
        fresh = [self._number(each.type) for each in kind.outputs if each.alias is None]
        changed = [inputs[at] for at, operand in enumerate(kind.inputs) if operand.written]
        return _Kind(False, list(enumerate(inputs)), [], fresh + changed)

    def _number(self, type: TensorType) -> int:
        number = self._numbers.setdefault(type, len(self.types))
        if number == len(self.types):
            self.types.append(type)
        return number

    def _source(self, storage: int, type: int, frame: int) -> int:
        """The op that produced what a reader in `frame` reads from `storage` as `type`."""
        as_written = type == self._written_type.setdefault(storage, type)
        view = self._views.get(storage, {}).get(type)
        if view is not None and self._is_visible(view, type, frame, as_written):
            return view
        return self._writer.get(storage, ~storage)

    def _is_visible(self, view: int, type: int, frame: int, as_written: bool) -> bool:
        """Whether every call that ended between the view and the reader can have returned it."""
        at = self._tree.of_op[view]
        around = self._tree.common(at, frame)
        while at != around:
            if type not in self._types_returned(at) or (as_written and at in self._writing):
                return False
            at = self._tree.parent[at]
        return True

    def _writing_frames(self) -> set[int]:
        """The frames in which an op writes."""
        result: set[int] = set()
        passes = [passes_through(kind) for kind in self._document.kinds]
        for op, frame in zip(self._document.ops, self._tree.of_op, strict=True):
            if not passes[op.kind]:
                while frame not in result:
                    result.add(frame)
                    frame = self._tree.parent[frame]
        return result

    def _types_returned(self, frame: int) -> frozenset[int]:
        if frame not in self._returned:
            outputs = self._document.calls[frame - 1].outputs
            self._returned[frame] = frozenset(map(self._number, outputs))
        return self._returned[frame]

    def _result(self) -> Iterator[Read]:
        """The tensors that the model returns: of each returned type, the last ones that are still alive."""
        wanted = Counter(self._number(type) for call in _outermost(self._document.calls) for type in call.outputs)
        alive: dict[int, list[int]] = {}
        for storage in sorted(self._writer, key=self._writer.__getitem__, reverse=True):
            row = self._document.storages[storage]
            if row.died is None and row.role == "activation":
                for type in {self._written_type[storage], *self._views.get(storage, ())} & wanted.keys():
                    alive.setdefault(type, []).append(storage)
        for type, count in wanted.items():
            for storage in alive.get(type, [])[:count]:
                yield Read(self._source(storage, type, self._tree.top), END, type)


class _Kind(NamedTuple):
    """What tracing needs of a kind of op; types are numbers."""

    passes: bool
    read: list[tuple[int, int]]
    """Place and type of each input whose data it reads."""
    made: list[tuple[int, int]]
    """Place of the input and type of each view that it makes."""
    written: list[int]
    """The type of each storage that it writes."""


def _outermost(calls: Sequence[Call]) -> Iterator[Call]:
    return (call for call in calls if call.parent is None)
