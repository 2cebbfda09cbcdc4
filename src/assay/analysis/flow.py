"""How values move between operations, told by the storages they read and write.

A view makes no storage, so what reads a view reads what it is a view of. Operations are indices into
`Document.ops`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from assay.document.document import Document
from assay.document.rows import Op, OpKind, TensorType


def is_view(kind: OpKind) -> bool:
    """Whether it only looks at its input: every output shares an input's storage and nothing is written."""
    shares = bool(kind.outputs) and all(output.alias is not None for output in kind.outputs)
    return shares and not any(operand.written for operand in kind.inputs)


def ops_named(document: Document, *names: str) -> list[int]:
    """The operations with one of these names, whatever their overload: `ops_named(document, "aten.relu")`."""
    wanted = {index for index, kind in enumerate(document.kinds) if kind.target.rpartition(".")[0] in names}
    return [index for index, op in enumerate(document.ops) if op.kind in wanted]


class DataFlow:
    """The readers and makers of every storage of a forward pass."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.readers: dict[int, list[int]] = {}
        """Operations that read a storage, views left out."""
        self.makers: dict[int, list[int]] = {}
        """Operations that make a storage or write into it."""
        view = cache(lambda kind: is_view(document.kinds[kind]))
        for index, op in enumerate(document.ops):
            if view(op.kind):
                continue
            for storage in dict.fromkeys(op.reads):
                self.readers.setdefault(storage, []).append(index)
            for storage in dict.fromkeys(op.writes):
                self.makers.setdefault(storage, []).append(index)

    def op(self, index: int) -> Op:
        """The row of an operation."""
        return self._document.ops[index]

    def made(self, index: int) -> int | None:
        """The one storage an operation makes; None where it makes several or writes into its input."""
        op = self.op(index)
        return op.writes[0] if len(op.writes) == 1 and op.writes[0] not in op.reads else None

    def operand(self, index: int, *names: str) -> int | None:
        """The storage of an operation's argument, by its name in the schema."""
        op = self.op(index)
        inputs = self._document.kinds[op.kind].inputs
        pairs = zip(inputs, op.reads, strict=False)
        return next((storage for one, storage in pairs if one.name in names), None)

    def maker(self, storage: int | None) -> int | None:
        """The only operation that made a storage; None where several wrote into it or it was there before."""
        makers = self.makers.get(storage, []) if storage is not None else []
        return makers[0] if len(makers) == 1 else None

    def only_reader(self, index: int) -> int | None:
        """The operation that alone reads what this one makes; None where others do or the model returns it."""
        storage = self.made(index)
        if storage is None or self.maker(storage) is None:
            return None
        readers = self.readers.get(storage, [])
        kept = self._document.storages[storage].died is None
        return readers[0] if len(readers) == 1 and not kept else None

    def pairs(self, first: list[int], second: list[int]) -> Iterator[tuple[int, int]]:
        """Operations of `first` whose result goes to one of `second` and nowhere else, as its first argument."""
        wanted = set(second)
        for index in first:
            reader = self.only_reader(index)
            if reader in wanted and reader is not None and self.op(reader).reads[0] == self.made(index):
                yield index, reader


def operand_type(kind: OpKind, *names: str) -> TensorType | None:
    """What an argument looks like, by its name in the schema; None where it was not given."""
    return next((one.type for one in kind.inputs if one.name in names), None)
