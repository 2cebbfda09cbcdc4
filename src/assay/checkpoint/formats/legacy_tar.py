"""The oldest torch.save format: a tar archive of storages, tensors and a pickle."""

from __future__ import annotations

import struct
from typing import Any

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Region
from assay.checkpoint.formats.legacy import locate_part, locate_storage
from assay.checkpoint.formats.torch_zip import checkpoint
from assay.checkpoint.pickle.machine import DAMAGE, MAX_UNITS, PickleMachine
from assay.checkpoint.pickle.represented import dtype_name
from assay.checkpoint.pickle.values import MAX_DIMENSIONS, RawStorage, TensorValue
from assay.checkpoint.pickle.walking import collect
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import one_line

BLOCK = 512
MAX_MEMBERS = 1000
MAX_ROWS = MAX_UNITS // 10


def read(region: Region) -> Checkpoint:
    """The checkpoint in a tar archive written by torch.save."""
    path = one_line(region.path)
    members = _members(region)
    if not {"storages", "tensors", "pickle"} <= members.keys():
        raise ReadError(f"{path} is a tar archive, but not a checkpoint: expected members storages, tensors, pickle")
    try:
        storages = _storages(members["storages"])
        tensors = _tensors(members["tensors"], storages)
    except DAMAGE as error:
        raise ReadError(f"{path} is damaged: its storages and tensors do not match") from error

    def persistent(pid: Any) -> Any:
        if isinstance(pid, tuple) and pid:
            return pid[0]
        return tensors.get(int(pid)) or storages[int(pid)]

    machine = PickleMachine(Stream(members["pickle"]), persistent)
    contents = collect(region.path, machine.load(), members["pickle"])
    return checkpoint("torch-legacy", region.path, contents, machine)


def _members(region: Region) -> dict[str, Region]:
    """The members of the archive by name."""
    members: dict[str, Region] = {}
    offset = 0
    while offset + BLOCK <= region.size and len(members) <= MAX_MEMBERS:
        header = region.read(offset, BLOCK)
        if not header[0]:
            break
        name = header[:100].rstrip(b"\0").decode("utf-8", "backslashreplace").removeprefix("./")
        size = _octal(header[124:136], region)
        if name in members:
            raise ReadError(f"{one_line(region.path)} is rejected: it contains {one_line(name)} twice")
        members[name] = region.part(offset + BLOCK, size)
        offset += BLOCK + -(-size // BLOCK) * BLOCK
    return members


def _octal(field: bytes, region: Region) -> int:
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big")
    try:
        return int(field.strip(b"\0 ") or b"0", 8)
    except ValueError as error:
        raise ReadError(f"{one_line(region.path)} is damaged: a tar header has no valid size") from error


def _storages(region: Region) -> dict[int, RawStorage]:
    """The storages by key. Each is stored as a pickled (key, device, class), its size and its bytes."""
    stream = Stream(region)
    machine = PickleMachine(stream, lambda pid: pid)
    storages: dict[int, RawStorage] = {}
    for _ in range(_count(machine, region)):
        key, _, kind = _triple(machine.load(), region)
        start = stream.offset
        numel = stream.number(8, signed=True)
        storage = RawStorage(str(int(key)), dtype_name(kind) or "unknown", numel)
        stream.jump(locate_storage(region, storage, start))
        storages[int(key)] = storage
    for view in machine.load():
        target, root, offset, numel = view
        whole = storages[int(root)]
        part = storages[int(target)] = RawStorage(str(int(target)), whole.dtype, numel)
        locate_part(region, part, whole, offset)
    return storages


def _tensors(region: Region, storages: dict[int, RawStorage]) -> dict[int, TensorValue]:
    """The tensors by key. Each is stored as a pickled (key, storage, class), its shape, strides and offset."""
    stream = Stream(region)
    machine = PickleMachine(stream, lambda pid: pid)
    tensors: dict[int, TensorValue] = {}
    for _ in range(_count(machine, region)):
        key, storage, _ = _triple(machine.load(), region)
        dimensions = stream.number(4)
        stream.take(4)
        if dimensions > MAX_DIMENSIONS:
            wrong = f"a tensor has {dimensions} dimensions, the limit is {MAX_DIMENSIONS}"
            raise ReadError(f"{one_line(region.path)} is rejected: {wrong}")
        numbers = struct.unpack(f"<{2 * dimensions + 1}q", stream.take(8 * (2 * dimensions + 1)))
        shape, strides = numbers[:dimensions], numbers[dimensions:-1]
        tensors[int(key)] = TensorValue(storages[int(storage)], numbers[-1], shape, strides)
    return tensors


def _count(machine: PickleMachine, region: Region) -> int:
    count = machine.load()
    if type(count) is not int or not 0 <= count <= MAX_ROWS:
        shown = count if type(count) is int else type(count).__name__
        raise ReadError(f"{one_line(region.path)} is damaged: {one_line(shown)} is not a valid number of tensors")
    return count


def _triple(value: Any, region: Region) -> tuple[Any, Any, Any]:
    if not isinstance(value, tuple) or len(value) != 3:
        raise ReadError(f"{one_line(region.path)} is damaged: a tensor description is not a triple")
    return value
