"""The storages that operations read, write and allocate, with the moment each dies.

Identity is the storage, not the tensor: views of one buffer are one thing. A weak reference to the
storage object tells when the last tensor over it is gone.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from assay.document.rows import Storage


class Life(weakref.ref):  # type: ignore[type-arg]
    """A living storage: its number, what it holds, and whether its values are known without data."""

    __slots__ = ("address", "known", "number", "role")

    address: int
    number: int
    role: str
    known: bool


class StorageLog:
    """Numbers storages as they appear and notes when they die."""

    def __init__(self, *, dataless: bool = False) -> None:
        self.dataless = dataless
        """Whether values exist only on the CPU; with data nothing is asked about them."""
        self.live: dict[int, Life] = {}
        """By address; an address is free again once its storage has died."""
        self.clock = 0
        """The number of operations so far."""
        self._begun: list[tuple[int, int, str]] = []
        """Bytes, moment and role of each, by number."""
        self._died: dict[int, int] = {}

    def find(self, tensor: torch.Tensor, role: str) -> Life:
        """The life of the tensor's storage; a storage not seen before begins here with `role`."""
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
            life.number = len(self._begun)
            life.role = role
            life.known = self.dataless and not tensor.is_meta
            self._begun.append((size, self.clock, role))
        return life

    def hold(self, size: int, role: str) -> None:
        """Count memory that lies in no tensor and stays all the time, such as packed weights."""
        self._begun.append((size, self.clock, role))

    def rename(self, life: Life, role: str) -> None:
        """Say of a storage what it has turned out to be."""
        life.role = role
        self._begun[life.number] = (*self._begun[life.number][:2], role)

    def rows(self) -> list[Storage]:
        """All storages in the order of their numbers."""
        return [
            Storage(bytes=size, born=born, died=self._died.get(number), role=role)
            for number, (size, born, role) in enumerate(self._begun)
        ]

    def close(self) -> None:
        """Stop listening for deaths, so that what the caller keeps is not counted as freed."""
        self.live.clear()

    def _end(self, life: Any) -> None:
        current: Any = self.live.get(life.address)
        if current is life:
            del self.live[life.address]
            self._died[life.number] = self.clock


def _bytes_without_storage(tensor: torch.Tensor) -> int:
    if tensor.layout is torch.sparse_coo and not tensor.is_meta:
        values, indices = tensor._values(), tensor._indices()
        return int(values.numel() * values.element_size() + indices.numel() * indices.element_size())
    return 0
