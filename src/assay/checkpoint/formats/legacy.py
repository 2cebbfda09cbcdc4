"""Bare pickles: the format of torch.save before 1.6 (storages follow the pickles), and of pickle.dump."""

from __future__ import annotations

from typing import Any

from assay.checkpoint.dtypes import item_bytes
from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Region, truncated
from assay.checkpoint.formats.torch_zip import checkpoint
from assay.checkpoint.pickle.machine import PickleMachine
from assay.checkpoint.pickle.represented import dtype_name
from assay.checkpoint.pickle.texts import PlainBytes
from assay.checkpoint.pickle.values import Blob, Global, RawStorage
from assay.checkpoint.pickle.walking import INSIDE, collect
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import one_line

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
FROM_BYTES = ("torch.storage", "_load_from_bytes")


def read(region: Region) -> Checkpoint:
    """The checkpoint in a bare pickle."""
    pickles = _Pickles(region)
    value, format = pickles.read()
    return checkpoint(format, region.path, collect(region.path, value, region), pickles.machine)


class _Pickles:
    """The pickles of one region, and the storages that they refer to."""

    def __init__(self, region: Region, depth: int = 0) -> None:
        self._region = region
        self._bytes = PlainBytes(region)
        self._path = one_line(region.path)
        self._stream = Stream(region)
        self._storages: dict[str, RawStorage] = {}
        self._views: dict[tuple[str, int, int], RawStorage] = {}
        self.machine = PickleMachine(self._stream, self._persistent)
        if not depth:
            # pickle.dump embeds each storage as the bytes of a complete torch.save file.
            self.machine.globals[FROM_BYTES] = Global(*FROM_BYTES, self._nested)

    def read(self) -> tuple[Any, str]:
        """The unpickled value and the name of the format."""
        first = self.machine.load()
        if first != MAGIC:
            return first, "pickle"
        if self.machine.load() != PROTOCOL:
            raise ReadError(f"{self._path} is rejected: unknown version of torch.save's legacy format")
        system = self.machine.load()
        value = self.machine.load()
        keys = self.machine.load()
        self._locate(keys, swapped=isinstance(system, dict) and system.get("little_endian") is False)
        self._storages.clear()  # the tensors refer to those of them that they need
        return value, "torch-legacy"

    def _persistent(self, pid: Any) -> Any:
        kind = pid[0] if isinstance(pid, tuple) and len(pid) > 1 else None
        if kind == "module":
            return pid[1]
        if kind != "storage" or len(pid) != 6 or type(pid[2]) is not str or type(pid[4]) is not int:
            raise ReadError(f"{self._path} is damaged: it has a persistent id that is not a storage")
        _, storage_class, key, _, numel, view = pid
        storage = self._storages.setdefault(key, RawStorage(key, dtype_name(storage_class) or "unknown", numel))
        if storage.numel != numel and view is None:
            raise ReadError(f"{self._path} is rejected: storage {one_line(key)} has two sizes")
        return storage if view is None else self._view(storage, view)

    def _view(self, storage: RawStorage, view: Any) -> RawStorage:
        """Part of a storage, which the oldest files describe by (key, first element, number of elements)."""
        _, offset, numel = view
        if type(offset) is not int or type(numel) is not int or min(offset, numel) < 0:
            raise ReadError(
                f"{self._path} is damaged: a view of storage {one_line(storage.key)} has an invalid range"
            )
        return self._views.setdefault((storage.key, offset, numel), RawStorage(storage.key, storage.dtype, numel))

    def _locate(self, keys: Any, *, swapped: bool) -> None:
        """Locate the storages: they follow the pickles in the order of `keys`, each preceded by its size."""
        is_list = isinstance(keys, list) and all(isinstance(key, (str, int)) for key in keys)
        if not is_list or set(map(str, keys)) != set(self._storages):
            raise ReadError(f"{self._path} is damaged: its list of storages does not match its tensors")
        offset = self._stream.offset
        for key in keys:
            storage = self._storages[str(key)]
            offset = locate_storage(self._region, storage, offset)
            if swapped:
                storage.swap()
        for (key, first, _), part in self._views.items():
            locate_part(self._region, part, self._storages[key], first)

    def _nested(self, args: Any) -> RawStorage:
        """The storage in an embedded torch.save file."""
        if not isinstance(args[0], (bytes, Blob)):
            raise TypeError(args[0])
        inner = self._bytes.region(args[0])
        if inner is None:
            return RawStorage("inside the pickle", "unknown", 0, problem=INSIDE)
        value, _ = _Pickles(inner, depth=1).read()
        if not isinstance(value, RawStorage):
            raise TypeError(value)
        return value


def locate_part(region: Region, part: RawStorage, whole: RawStorage, first: int) -> None:
    """Locate `part`, a view of the storage `whole` that starts at its element `first`."""
    width = item_bytes(whole.dtype) or 1
    if min(first, part.numel) < 0 or (first + part.numel) * width > whole.length:
        raise ReadError(f"{one_line(region.path)} is rejected: a view of storage {one_line(whole.key)} exceeds it")
    part.set_location(whole.file, whole.offset + first * width, part.numel * width, whole.encoded)
    part.problem = whole.problem


def locate_storage(region: Region, storage: RawStorage, offset: int) -> int:
    """Locate a storage, whose size is in the eight bytes at `offset`; returns the offset of the next one."""
    path = one_line(region.path)
    if offset + 8 > region.size:
        raise truncated(region.path, f"storage {one_line(storage.key)} is missing")
    numel = int.from_bytes(region.read(offset, 8), "little", signed=True)
    width = item_bytes(storage.dtype)
    if width is None:
        raise ReadError(
            f"{path} cannot be read: storage {one_line(storage.key)} has an unknown dtype, so no known size"
        )
    if numel != storage.numel or numel < 0:
        raise ReadError(f"{path} is damaged: storage {one_line(storage.key)} has size {numel}, not {storage.numel}")
    start, length = offset + 8, numel * width
    if start + length > region.size:
        raise truncated(region.path, f"storage {one_line(storage.key)} needs {length} bytes at offset {start}")
    storage.set_location(region.path, region.base + start, length, region.file.encoded)
    return start + length
