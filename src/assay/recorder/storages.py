"""The storages that ops read, write and allocate, and when each is freed.

Storages are tracked, not tensors: all views of one buffer count as one storage. A weak reference to the storage
object detects when its last tensor is gone.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from assay.document.rows import Storage


class Life(weakref.ref):  # type: ignore[type-arg]
    """A live storage: its number and role and, in a pass without data, what is known about its values and sizes."""

    __slots__ = ("address", "assumed", "choices", "number", "role", "values_known")

    address: int
    number: int
    role: str
    values_known: bool
    assumed: bool
    """Whether a size of its tensors is an assumed maximum, or derives from one."""
    choices: tuple[int, int] | None
    """The choices of a `topk` per row and in total, if its values are these choices or a mask of them."""


class StorageLog:
    """Numbers storages as they appear and records when they are freed."""

    def __init__(self, *, dataless: bool = False) -> None:
        self.dataless = dataless
        """Whether the pass runs without data, so that only regular CPU tensors have known values."""
        self.live: dict[int, Life] = {}
        """Live storages by address; an address can be reused once its storage is freed."""
        self.clock = 0
        """The number of ops so far."""
        self._created: list[tuple[int, int, str]] = []
        """Size in bytes, time of creation and role of each storage, by number."""
        self._freed: dict[int, int] = {}

    def find(self, tensor: torch.Tensor, role: str) -> Life:
        """The life of the tensor's storage; a new storage is registered with `role`."""
        try:
            storage: Any = tensor.untyped_storage()
            address = storage._cdata
            size = storage.nbytes()
        except (RuntimeError, NotImplementedError):  # sparse tensors and wrappers have no storage of their own
            storage, address, size = tensor, id(tensor), _bytes_without_storage(tensor)
        life = self.live.get(address)
        if life is None:
            life = self.live[address] = Life(storage, self._end)
            life.address = address
            life.number = len(self._created)
            life.role = role
            life.values_known = self.dataless and not tensor.is_meta and not lacks_meta_form(tensor)
            life.assumed = False
            life.choices = None
            self._created.append((size, self.clock, role))
        return life

    def add_permanent(self, size: int, role: str) -> None:
        """Count memory outside any tensor that is never freed, such as packed weights."""
        self._created.append((size, self.clock, role))

    def set_role(self, life: Life, role: str) -> None:
        """Change the role of a storage."""
        life.role = role
        self._created[life.number] = (*self._created[life.number][:2], role)

    def rows(self) -> list[Storage]:
        """All storages in the order of their numbers."""
        return [
            Storage(bytes=size, born=born, died=self._freed.get(number), role=role)
            for number, (size, born, role) in enumerate(self._created)
        ]

    def close(self) -> None:
        """Stop tracking, so that storages in the model's result are not counted as freed."""
        self.live.clear()

    def _end(self, life: Any) -> None:
        """Record that a storage was freed."""
        current: Any = self.live.get(life.address)
        if current is life:
            del self.live[life.address]
            self._freed[life.number] = self.clock


def lacks_meta_form(tensor: torch.Tensor) -> bool:
    """Whether the tensor keeps its memory in a pass without data: nested and quantized tensors cannot be on meta."""
    return bool(tensor.is_nested or tensor.is_quantized)


def _bytes_without_storage(tensor: torch.Tensor) -> int:
    """The size of a sparse COO tensor's values and indices in bytes; 0 for other tensors without a storage."""
    if tensor.layout is torch.sparse_coo and not tensor.is_meta:
        values, indices = tensor._values(), tensor._indices()
        return int(values.numel() * values.element_size() + indices.numel() * indices.element_size())
    return 0
