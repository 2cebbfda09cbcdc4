"""Lifetimes of storages: live bytes during each op, the peak, and the storages that make it up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import accumulate

from msgspec import Struct

from assay.analysis.name_ranges import fold_names
from assay.display import Displayed
from assay.document.document import Document
from assay.document.provenance import Counted
from assay.document.rows import Op, OpKind, Storage
from assay.document.tree import path_text

RESIDENT = frozenset({"parameter", "buffer", "input"})
"""Roles of storages that exist before and after the pass."""

LARGEST = 10
"""How many of the storages live at the peak are listed."""

BEFORE = "(before)"
"""Shown instead of the op that made a storage if the storage existed before it was first read."""

BY_STORAGES = Counted("storages created and freed during the capture")


class LiveStorage(Struct, frozen=True, omit_defaults=True):
    """A storage that is live at the peak."""

    bytes: int
    role: str
    target: str
    """The op that created it."""
    module: str
    """Path of the module that ran the op."""
    born: int
    died: int | None = None
    phase: str = "forward"


class LiveStorages(Struct, frozen=True, omit_defaults=True):
    """Storages of the same size that the same op created in the same module of repeated blocks."""

    count: int
    bytes: int
    """Bytes of all of them."""
    each: int
    """Bytes of one of them."""
    role: str
    target: str
    """The op that created them."""
    module: str
    """Paths of the modules that ran the op: `layers.0–31.self_attn`."""
    born: int
    """The op that created the first of them."""
    died: int | None = None
    """The op after which none was live; null if one was live at the end."""


class Peak(Displayed, Struct, frozen=True, omit_defaults=True):
    """The op during which the most bytes are live."""

    op: int
    """Index of the op; of the first one if several are equal."""
    target: str
    module: str
    phase: str
    bytes: int
    """Live bytes, without parameters, buffers and inputs."""
    by_role: dict[str, int]
    largest: tuple[LiveStorage, ...]
    together: tuple[LiveStorages, ...] = ()
    """The storages live at the peak with those of repeated blocks together, most bytes first."""


class PassStorages(Struct, frozen=True):
    """The ops and storages of one pass: a forward pass or a training step."""

    document: Document
    kinds: Sequence[OpKind]
    ops: Sequence[Op]
    storages: Sequence[Storage]

    def module(self, op: int) -> str:
        """The path of the module that ran an op; empty if it ran outside all modules."""
        call = self.ops[op].call
        return path_text(self.document.modules[self.document.calls[call].module].path) if call >= 0 else ""

    def target(self, op: int) -> str:
        """The name of an op, as a user would write it."""
        return self.kinds[self.ops[op].kind].name

    @property
    def moving(self) -> Iterable[Storage]:
        """The storages created during the pass: all but parameters, buffers and inputs."""
        return (storage for storage in self.storages if storage.role not in RESIDENT)


def forward(document: Document) -> PassStorages:
    """The forward pass of a document."""
    return PassStorages(document, document.kinds, document.ops, document.storages)


def training_step(document: Document) -> PassStorages | None:
    """The training step of a document; None if none was recorded."""
    step = document.training
    return None if step is None else PassStorages(document, step.kinds, step.ops, step.storages)


def resident(storages: Iterable[Storage], role: str) -> int:
    """Total bytes of the storages with that role."""
    return sum(storage.bytes for storage in storages if storage.role == role)


def live_bytes(storages: Iterable[Storage], ops: int) -> list[int]:
    """Live bytes during each of `ops` ops; a storage is live from the op that creates it until it is freed."""
    changes = [0] * (ops + 1)
    for storage in storages:
        start, end = span(storage, ops)
        if start < end:
            changes[start] += storage.bytes
            changes[end] -= storage.bytes
    return list(accumulate(changes[:ops]))


def span(storage: Storage, ops: int) -> tuple[int, int]:
    """The first op in which a storage is live, and the first in which it no longer is."""
    # A constant exists before the pass, whenever an op first reads it. A storage that appears after the last op
    # counts as live during the last op.
    start = 0 if storage.role == "constant" else min(storage.born, max(ops - 1, 0))
    return start, ops if storage.died is None else min(storage.died, ops)


def peak_of(recorded_pass: PassStorages, series: Sequence[int]) -> Peak | None:
    """The peak of `series`, the live bytes during each op; None if no op ran."""
    if not series:
        return None
    op = max(range(len(series)), key=series.__getitem__)
    live = [storage for storage in recorded_pass.moving if _is_live(storage, op, len(series))]
    roles: dict[str, int] = {}
    for storage in live:
        roles[storage.role] = roles.get(storage.role, 0) + storage.bytes
    largest = nsmallest(LARGEST, live, key=lambda storage: (-storage.bytes, storage.born))
    return Peak(
        op=op,
        target=recorded_pass.target(op),
        module=recorded_pass.module(op),
        phase=recorded_pass.ops[op].phase,
        bytes=series[op],
        by_role=dict(sorted(roles.items(), key=lambda item: -item[1])),
        largest=tuple(_live_storage(storage, recorded_pass) for storage in largest),
        together=_together([_live_storage(storage, recorded_pass) for storage in live]),
    )


def _together(live: Sequence[LiveStorage]) -> tuple[LiveStorages, ...]:
    """The storages by size, role, op and module, the first `LARGEST` of them."""
    keys = [(storage.bytes, storage.role, storage.target, storage.phase) for storage in live]
    groups = []
    for folded in fold_names((storage.module for storage in live), keys, whole=True):
        members = [live[at] for at in folded.members]
        first, deaths = members[0], [storage.died for storage in members if storage.died is not None]
        groups.append(
            LiveStorages(
                count=len(members),
                bytes=sum(storage.bytes for storage in members),
                each=first.bytes,
                role=first.role,
                target=first.target,
                module=folded.text,
                born=min(storage.born for storage in members),
                died=max(deaths) if len(deaths) == len(members) else None,
            )
        )
    return tuple(nsmallest(LARGEST, groups, key=lambda group: (-group.bytes, group.born)))


def saved_for_backward(step: PassStorages) -> int:
    """Bytes that the forward pass of a training step creates and the backward pass reads."""
    read = {number for op in step.ops if op.phase == "backward" for number in op.reads}
    # After the last op inside a module, the forward pass only creates the initial gradient.
    inside = [index for index, op in enumerate(step.ops) if op.phase == "forward" and op.call >= 0]
    end = inside[-1] + 1 if inside else 0
    storages = step.storages
    return sum(storages[n].bytes for n in read if storages[n].role not in RESIDENT and storages[n].born < end)


def _is_live(storage: Storage, op: int, ops: int) -> bool:
    start, end = span(storage, ops)
    return start <= op < end


def _live_storage(storage: Storage, recorded_pass: PassStorages) -> LiveStorage:
    maker = min(storage.born, len(recorded_pass.ops) - 1)
    created = storage.role != "constant"
    return LiveStorage(
        bytes=storage.bytes,
        role=storage.role,
        target=recorded_pass.target(maker) if created else BEFORE,
        module=recorded_pass.module(maker),
        born=storage.born,
        died=storage.died,
        phase=recorded_pass.ops[maker].phase,
    )
