"""What torch.save writes: a zip archive with a pickle and one member a storage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay.checkpoint.dtypes import item_bytes
from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.formats.archive import Member, ZipArchive
from assay.checkpoint.listing import list_tensors
from assay.checkpoint.pickle.machine import PickleMachine
from assay.checkpoint.pickle.represented import dtype_name
from assay.checkpoint.pickle.values import RawStorage
from assay.checkpoint.pickle.walking import PickleContents, find
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import brief

_PICKLE = "data.pkl"
DescribedPickle = tuple[PickleContents, PickleMachine]


def read(archive: ZipArchive) -> Checkpoint:
    """The checkpoint in an archive of torch.save."""
    return checkpoint("torch-zip", archive.region.path, *describe(archive))


def checkpoint(format: str, path: str, found: PickleContents, machine: PickleMachine) -> Checkpoint:
    """The checkpoint that one pickle describes, with a note on what loading it would have run."""
    return Checkpoint(
        format,
        path,
        list_tensors(path, found.tensors),
        found.facts,
        found.modules,
        globals=tuple(machine.foreign),
        notes=(*found.notes, *_not_run(machine)),
    )


def prefix_of(archive: ZipArchive) -> str:
    """The folder of the archive that holds data.pkl, which every archive of torch has at its top."""
    found = [member.removesuffix(_PICKLE) for member in archive.members if f"/{member}".endswith(f"/{_PICKLE}")]
    top = [prefix for prefix in found if prefix.count("/") <= 1]
    if len(top) != 1:
        held = "several" if top else "no"
        raise ReadError(
            f"{brief(archive.region.path)} is a zip archive that holds {held} {_PICKLE}: not a checkpoint"
        )
    return top[0]


def describe(archive: ZipArchive, pickle: str = _PICKLE, records: str = "data/") -> DescribedPickle:
    """What one pickle of the archive describes, and what read it; its storages are the members under `records`."""
    prefix = prefix_of(archive)
    region = archive.open(prefix + pickle)
    storages: dict[tuple[str, str], RawStorage] = {}
    machine = PickleMachine(Stream(region), lambda pid: _storage(archive.region.path, storages, pid))
    value = machine.load()
    _place(archive, prefix + records, storages.values(), swapped=_is_swapped(archive, prefix))
    return find(archive.region.path, value, region), machine


def _not_run(machine: PickleMachine) -> tuple[str, ...]:
    """A note on the code that loading the file would have run."""
    if not machine.foreign:
        return ()
    called = ", ".join(brief(name, 60) for name in list(machine.called)[:5])
    more = f" and {len(machine.called) - 5} more" if len(machine.called) > 5 else ""
    what = f"and call {called}{more}" if called else "and call nothing of it"
    count = len(machine.foreign)
    return (f"code not run: loading it with torch would import {count} global{'s' * (count > 1)} {what}",)


def _storage(path: str, storages: dict[tuple[str, str], RawStorage], pid: Any) -> RawStorage:
    """The storage that a persistent id names: ("storage", class, key, device, elements)."""
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or type(pid[2]) is not str:
        raise ReadError(f"{brief(path)} is damaged: it refers to something that is no storage")
    dtype = dtype_name(pid[1]) or "unknown"
    key = (pid[2], dtype)
    if key not in storages:
        storages[key] = RawStorage(pid[2], dtype, pid[4])
    elif storages[key].numel != pid[4]:
        raise ReadError(f"{brief(path)} is refused: storage {brief(pid[2])} has two sizes")
    return storages[key]


def _place(archive: ZipArchive, records: str, storages: Iterable[RawStorage], *, swapped: bool) -> None:
    """Find every storage's record and check that it holds what the pickle says."""
    path = brief(archive.region.path)
    wanted = list(storages)
    members = []
    for storage in wanted:
        member = archive.members.get(records + storage.key)
        if member is None:
            raise ReadError(f"{path} is damaged: storage {brief(storage.key)} is missing from the archive")
        _check_size(path, storage, member.size)
        members.append(member)
    for storage, member, start in zip(wanted, members, archive.starts(members), strict=True):
        put(archive, storage, member, start)
        if swapped:
            storage.swap()


def put(archive: ZipArchive, storage: RawStorage, member: Member, start: int) -> None:
    """Say where the bytes of a storage are: in the member whose data starts at `start`."""
    coded, problem = archive.record(member, start)
    offset = archive.region.base + start if coded is None else 0
    storage.place("" if problem else archive.region.path, offset, member.size, coded)
    storage.problem = problem


def _check_size(path: str, storage: RawStorage, size: int) -> None:
    width, count = item_bytes(storage.dtype), storage.numel
    if type(count) is not int or count < 0:
        raise ReadError(f"{path} is damaged: storage {brief(storage.key)} has no size")
    # A storage of bytes seen as wider elements may end in part of one.
    if width and not 0 <= size - count * width < width:
        raise ReadError(
            f"{path} is refused: storage {brief(storage.key)} should hold {count * width} bytes and holds {size}"
        )


def _is_swapped(archive: ZipArchive, prefix: str) -> bool:
    name = f"{prefix}byteorder"
    return name in archive.members and archive.read(name, 64) == b"big"
