"""The labels of a running capture: the threads it covers, and the totals of their module calls."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from torch import nn

from assay.document.trace_labels import TracedModule
from assay.trace.write.lanes import Lane, ShapeNumbers, Slot
from assay.trace.write.plan import LayerTime

REPLICATED = "module"
"""The attribute in which `nn.DataParallel` keeps the model; its replicas run on separate threads."""


class _Here(threading.local):
    """The lane of the current thread; thread-local, because the id of a finished thread is reused."""

    lane: Lane | None = None


class Labelling:
    """The labels of one capture."""

    def __init__(self, root: nn.Module, *, shapes: bool) -> None:
        self.replicas = isinstance(root, nn.DataParallel)
        """Whether threads that run a replica are labelled too."""
        self._shapes = ShapeNumbers() if shapes else None
        self.lane = Lane(root, "", self._shapes)
        """The calls on the capturing thread."""
        self.here = _Here()
        self.here.lane = self.lane
        self._lanes = [self.lane]

    def replica_lane(self, module: nn.Module) -> Lane | None:
        """A new lane for this thread if `module` is a replica; None if the thread is not part of the capture."""
        if not (self.replicas and module.__dict__.get("_is_replica")):
            return None
        self.here.lane = Lane(module, REPLICATED, self._shapes)
        self._lanes.append(self.here.lane)
        return self.here.lane

    def modules(self) -> tuple[TracedModule, ...]:
        """The modules that were called, as stored in the trace."""
        return tuple(
            TracedModule(slots[0].path, slots[0].class_name, tuple(slots[0].aliases), tuple(_joined(slots)))
            for slots in self._by_path()
        )

    def shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The combinations of input shapes that `modules` refer to by index."""
        return self._shapes.table() if self._shapes is not None else ()

    def layers(self) -> tuple[LayerTime, ...]:
        """The modules that were called with their times, in the order of their first calls."""
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
        """The slots of each module; a replicated module has one slot per thread."""
        slots: dict[str, list[Slot]] = {}
        for lane in list(self._lanes):
            for slot in lane.called:
                slots.setdefault(slot.path, []).append(slot)
        return slots.values()


def _joined(slots: list[Slot]) -> list[int]:
    return [number for slot in slots for number in slot.shapes]
