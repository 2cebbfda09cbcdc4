"""Memory per device if several devices share a model. To add a parallelism, add one entry to `PARALLELISMS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from assay.analysis.devices import Device, DeviceGroup
from assay.analysis.memory.totals import Memory
from assay.messages import plural


class PeakParts(Struct, frozen=True):
    """The peak memory of a pass, by what several devices can share."""

    state: int = 0
    """Bytes of parameters, gradients, optimizer state and master weights."""
    cache: int = 0
    """Bytes of the KV cache, which counts as wholly live at the peak."""
    rest: int = 0
    """Bytes of buffers, inputs and activations."""
    heads: int | None = None
    """Heads of the KV cache; None if unknown."""

    @property
    def total(self) -> int:
        """Bytes on a single device."""
        return self.state + self.cache + self.rest


class Parallelism(Struct, frozen=True):
    """A way of sharing a model among devices."""

    name: str
    per_device: Callable[[PeakParts, int], int]
    """Bytes per device among that many devices."""
    assumption: Callable[[PeakParts, int], str]


class Target(Struct, frozen=True):
    """A device, or several devices and the way in which they share a model."""

    device: Device
    count: int = 1
    parallelism: Parallelism | None = None

    @property
    def name(self) -> str:
        """`H100 SXM`, or `8xH100 SXM` for several devices."""
        return DeviceGroup(self.device, self.count).name

    @property
    def label(self) -> str:
        """The name with the way of sharing: `8xH100 SXM, sharded`."""
        return f"{self.name}, {self.parallelism.name}" if self.parallelism else self.name

    def needed(self, need: PeakParts) -> int:
        """Bytes per device."""
        return self.parallelism.per_device(need, self.count) if self.parallelism else need.total

    def assumption(self, need: PeakParts) -> str:
        """What the bytes per device assume."""
        return self.parallelism.assumption(need, self.count) if self.parallelism else "one device"


def need_of(memory: Memory, requested_cache: int = 0) -> PeakParts | None:
    """The peak of the training step, else of inference, with a KV cache of the requested size if that is larger.

    None if no op was recorded.
    """
    occupancy = memory.training or memory.inference
    if occupancy is None:
        return None
    recorded = memory.cache.captured.bytes if memory.cache else 0
    weights = min(int(memory.parameters.value or 0), int(occupancy.resident.value or 0))
    kept = int(occupancy.total.value or 0) - int(occupancy.resident.value or 0) - int(occupancy.moving.value or 0)
    state = weights + occupancy.peak.by_role.get("gradient", 0) + kept
    live = min(recorded, int(occupancy.total.value or 0) - state)
    return PeakParts(
        state=state,
        cache=live + max(requested_cache - recorded, 0),
        rest=int(occupancy.total.value or 0) - state - live,
        heads=memory.cache.captured.heads if memory.cache else None,
    )


def targets(groups: Iterable[DeviceGroup]) -> list[Target]:
    """Every single device, and every way in which several devices share a model."""
    return [
        Target(group.device, group.count, parallelism)
        for group in groups
        for parallelism in (PARALLELISMS if group.count > 1 else (None,))
    ]


def _sharded(need: PeakParts, count: int) -> int:
    return _divided(need.state, count) + need.cache + need.rest


def _tensor_parallel(need: PeakParts, count: int) -> int:
    heads = need.heads or 1  # of a cache whose heads are unknown, nothing is divided
    return _divided(need.state, count) + _divided(need.cache * _divided(heads, count), heads) + need.rest


def _divided(size: int, parts: int) -> int:
    """The largest of `parts` parts that are as even as whole numbers can be."""
    return -(-size // parts)


def _sharded_assumption(need: PeakParts, count: int) -> str:
    held = "activations and KV cache" if need.cache else "activations"
    return (
        f"parameters, gradients and optimizer state are divided by {count}; every device holds the {held} of a "
        "batch of its own; the gathered parameters of the running layer are not included"
    )


def _tensor_parallel_assumption(need: PeakParts, count: int) -> str:
    return (
        f"parameters, gradients and optimizer state are divided by {count}; every device holds "
        f"{_held_cache(need, count)}the activations; communication buffers are not included"
    )


def _held_cache(need: PeakParts, count: int) -> str:
    """`1 of 8 heads of the KV cache and `."""
    if not need.cache:
        return ""
    if need.heads is None:
        return "the whole KV cache, whose heads are unknown, and "
    return f"{_divided(need.heads, count)} of {plural(need.heads, 'head')} of the KV cache and "


PARALLELISMS = (
    Parallelism("sharded", _sharded, _sharded_assumption),
    Parallelism("tensor-parallel", _tensor_parallel, _tensor_parallel_assumption),
)
"""Fully sharded data parallel (FSDP, ZeRO-3), and tensor parallel."""
