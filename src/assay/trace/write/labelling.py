"""A capture while it runs: which threads it labels, and what their calls add up to."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from torch import nn

from assay.document.trace_labels import TracedModule
from assay.trace.write.lanes import Lane, ShapeNumbers, Slot
from assay.trace.write.plan import LayerTime

REPLICATED = "module"
"""What `nn.DataParallel` calls the model whose replicas run on threads of their own."""


class _Here(threading.local):
    """What belongs to the thread that asks: the identity of one that has ended is given to another."""

    lane: Lane | None = None


class Labelling:
    """The labels of one capture."""

    def __init__(self, root: nn.Module, *, shapes: bool) -> None:
        self.replicas = isinstance(root, nn.DataParallel)
        """Whether other threads take part: those that run a replica."""
        self._shapes = ShapeNumbers() if shapes else None
        self.lane = Lane(root, "", self._shapes)
        """The calls of the thread that captures."""
        self.here = _Here()
        self.here.lane = self.lane
        self._lanes = [self.lane]

    def replica_lane(self, module: nn.Module) -> Lane | None:
        """A lane for this thread if `module` is a replica; None where the thread takes no part."""
        if not (self.replicas and module.__dict__.get("_is_replica")):
            return None
        self.here.lane = Lane(module, REPLICATED, self._shapes)
        self._lanes.append(self.here.lane)
        return self.here.lane

    def modules(self) -> tuple[TracedModule, ...]:
        """The modules that were called, for the trace."""
        return tuple(
            TracedModule(slots[0].path, slots[0].class_name, tuple(slots[0].aliases), tuple(_joined(slots)))
            for slots in self._by_path()
        )

    def shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The combinations of input shapes that `modules` point into."""
        return self._shapes.table() if self._shapes is not None else ()

    def layers(self) -> tuple[LayerTime, ...]:
        """The modules that were called, with their times, in the order of their first calls."""
        table = self.shapes()
        return tuple(
            LayerTime(
                path=slots[0].path,
                class_name=slots[0].class_name,
                calls=sum(slot.calls for slot in slots),
                own_ns=sum(slot.own_ns for slot in slots),
                total_ns=sum(slot.total_ns for slot in slots),
                shapes=tuple(table[number] for number in dict.fromkeys(_joined(slots)) if number >= 0),
            )
            for slots in self._by_path()
        )

    def _by_path(self) -> Iterable[list[Slot]]:
        """The slots of each module; a replicated one has a slot a thread."""
        found: dict[str, list[Slot]] = {}
        for lane in list(self._lanes):
            for slot in lane.called:
                found.setdefault(slot.path, []).append(slot)
        return found.values()


def _joined(slots: list[Slot]) -> list[int]:
    return [number for slot in slots for number in slot.shapes]
