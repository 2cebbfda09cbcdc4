"""Data flow between ops, from the storages they read and write.

A view has no storage of its own, so an op that reads a view reads the storage of the base tensor. Ops are indices
into `Document.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from assay.document.document import Document
from assay.document.rows import Op, OpKind, TensorType


def is_view(kind: OpKind) -> bool:
    """Whether the op only makes views: every output shares an input's storage and nothing is written."""
    shares = bool(kind.outputs) and all(output.alias is not None for output in kind.outputs)
    return shares and not any(operand.written for operand in kind.inputs)


def writes_parameters(document: Document) -> bool:
    """Whether any op of the pass writes to a parameter."""
    return any(each.written and each.role == "parameter" for kind in document.kinds for each in kind.inputs)


def ops_named(document: Document, *names: str) -> list[int]:
    """The ops with one of these names, in any overload: `ops_named(document, "aten.relu")`."""
    return ops_where(document, lambda kind: kind.target.rpartition(".")[0] in names)


def ops_where(document: Document, condition: Callable[[OpKind], bool]) -> list[int]:
    """The ops whose kind meets `condition`."""
    kinds = {index for index, kind in enumerate(document.kinds) if condition(kind)}
    return [index for index, op in enumerate(document.ops) if op.kind in kinds]


class DataFlow:
    """The ops that read and write each storage of a forward pass."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.readers: dict[int, list[int]] = {}
        """Per storage, the ops that read it, without views."""
        self.writers: dict[int, list[int]] = {}
        """Per storage, the ops that create it or write into it."""
        view = cache(lambda kind: is_view(document.kinds[kind]))
        for index, op in enumerate(document.ops):
            if view(op.kind):
                continue
            for storage in dict.fromkeys(op.reads):
                self.readers.setdefault(storage, []).append(index)
            for storage in dict.fromkeys(op.writes):
                self.writers.setdefault(storage, []).append(index)

    def op(self, index: int) -> Op:
        """The op with that index."""
        return self._document.ops[index]

    def created_storage(self, index: int) -> int | None:
        """The storage that an op creates; None if it writes several or writes into its input."""
        op = self.op(index)
        return op.writes[0] if len(op.writes) == 1 and op.writes[0] not in op.reads else None

    def operand(self, index: int, *names: str) -> int | None:
        """The storage of the op's first argument that has one of these schema names; None if there is none."""
        op = self.op(index)
        inputs = self._document.kinds[op.kind].inputs
        pairs = zip(inputs, op.reads, strict=False)
        return next((storage for one, storage in pairs if one.name in names), None)

    def only_writer(self, storage: int | None) -> int | None:
        """The only op that wrote a storage; None if several did, or if it existed before the pass."""
        writers = self.writers.get(storage, []) if storage is not None else []
        return writers[0] if len(writers) == 1 else None

    def only_reader(self, index: int) -> int | None:
        """The only op that reads the result of this one; None if several do or the model returns the result."""
        storage = self.created_storage(index)
        if storage is None or self.only_writer(storage) is None:
            return None
        readers = self.readers.get(storage, [])
        kept = self._document.storages[storage].died is None
        return readers[0] if len(readers) == 1 and not kept else None

    def pairs(self, first: list[int], second: list[int]) -> Iterator[tuple[int, int]]:
        """Pairs of an op of `first` and the op of `second` that alone reads its result, as its first argument."""
        consumers = set(second)
        for index in first:
            reader = self.only_reader(index)
            if reader in consumers and reader is not None and self.op(reader).reads[0] == self.created_storage(index):
                yield index, reader


def operand_type(kind: OpKind, *names: str) -> TensorType | None:
    """Shape and dtype of the first argument that has one of these schema names; None if it was not passed."""
    return next((one.type for one in kind.inputs if one.name in names), None)
