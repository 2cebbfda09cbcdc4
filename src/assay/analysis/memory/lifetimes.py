"""Storages over time: how many bytes are alive at each operation, where most are, and what they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import accumulate

from msgspec import Struct

from assay.document.document import Document
from assay.document.provenance import Counted
from assay.document.rows import Op, OpKind, Storage
from assay.document.tree import shown

RESIDENT = frozenset({"parameter", "buffer", "input"})
"""Roles that are there before and after the pass."""

LARGEST = 10
"""How many of the storages alive at the peak are named."""

BEFORE = "(before)"
"""Stands for the operation where a storage was there already when one first read it."""

BY_STORAGES = Counted("storages that the capture saw made and freed")


class LiveStorage(Struct, frozen=True, omit_defaults=True):
    """A storage that is alive at the peak."""

    bytes: int
    role: str
    target: str
    """The operation that made it."""
    module: str
    """The path of the module that ran it."""
    born: int
    died: int | None = None
    phase: str = "forward"


class Peak(Struct, frozen=True, omit_defaults=True):
    """The moment when most is alive."""

    op: int
    """The index of the operation; of the first, where several are equal."""
    target: str
    module: str
    phase: str
    bytes: int
    """Alive then, without what is resident."""
    by_role: dict[str, int]
    largest: tuple[LiveStorage, ...]


class PassStorages(Struct, frozen=True):
    """One pass as its storages tell it: the rows of a forward pass or of a training step."""

    document: Document
    kinds: Sequence[OpKind]
    ops: Sequence[Op]
    storages: Sequence[Storage]

    def module(self, op: int) -> str:
        """The path of the module that ran an operation."""
        call = self.ops[op].call
        return shown(self.document.modules[self.document.calls[call].module].path) if call >= 0 else ""

    def target(self, op: int) -> str:
        """The name of an operation, as a user would write it."""
        return self.kinds[self.ops[op].kind].name

    @property
    def moving(self) -> Iterable[Storage]:
        """The storages that come and go."""
        return (storage for storage in self.storages if storage.role not in RESIDENT)


def forward(document: Document) -> PassStorages:
    """The forward pass of a document."""
    return PassStorages(document, document.kinds, document.ops, document.storages)


def training_step(document: Document) -> PassStorages | None:
    """The training step of a document, where it was watched."""
    step = document.training
    return None if step is None else PassStorages(document, step.kinds, step.ops, step.storages)


def resident(storages: Iterable[Storage], role: str) -> int:
    """Bytes of the storages with a resident role."""
    return sum(storage.bytes for storage in storages if storage.role == role)


def alive(storages: Iterable[Storage], ops: int) -> list[int]:
    """Bytes alive during each of so many operations; a storage lives from the one that makes it until it dies."""
    changes = [0] * (ops + 1)
    for storage in storages:
        start, end = span(storage, ops)
        if start < end:
            changes[start] += storage.bytes
            changes[end] -= storage.bytes
    return list(accumulate(changes[:ops]))


def span(storage: Storage, ops: int) -> tuple[int, int]:
    """The first operation a storage is alive in and the first after it; what appears at the end is in the last."""
    start = min(storage.born, max(ops - 1, 0))
    return start, ops if storage.died is None else min(storage.died, ops)


def peak_of(watched: PassStorages, series: Sequence[int]) -> Peak | None:
    """Where most is alive; None where nothing ran."""
    if not series:
        return None
    op = max(range(len(series)), key=series.__getitem__)
    living = [storage for storage in watched.moving if _lives_in(storage, op, len(series))]
    roles: dict[str, int] = {}
    for storage in living:
        roles[storage.role] = roles.get(storage.role, 0) + storage.bytes
    largest = nsmallest(LARGEST, living, key=lambda storage: (-storage.bytes, storage.born))
    return Peak(
        op=op,
        target=watched.target(op),
        module=watched.module(op),
        phase=watched.ops[op].phase,
        bytes=series[op],
        by_role=dict(sorted(roles.items(), key=lambda item: -item[1])),
        largest=tuple(_held(storage, watched) for storage in largest),
    )


def saved_for_backward(step: PassStorages) -> int:
    """Bytes that the forward part of a training step makes and the backward part reads."""
    read = {number for op in step.ops if op.phase == "backward" for number in op.reads}
    # Outside any module, after the last one, only the first gradient is made.
    inside = [index for index, op in enumerate(step.ops) if op.phase == "forward" and op.call >= 0]
    end = inside[-1] + 1 if inside else 0
    storages = step.storages
    return sum(storages[n].bytes for n in read if storages[n].role not in RESIDENT and storages[n].born < end)


def _lives_in(storage: Storage, op: int, ops: int) -> bool:
    start, end = span(storage, ops)
    return start <= op < end


def _held(storage: Storage, watched: PassStorages) -> LiveStorage:
    maker = min(storage.born, len(watched.ops) - 1)
    made = storage.role != "constant"
    return LiveStorage(
        bytes=storage.bytes,
        role=storage.role,
        target=watched.target(maker) if made else BEFORE,
        module=watched.module(maker),
        born=storage.born,
        died=storage.died,
        phase=watched.ops[maker].phase,
    )
