"""The torch.save format: a zip archive with a pickle and one member per storage."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any, NamedTuple

from assay.checkpoint.dtypes import item_bytes
from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Region
from assay.checkpoint.formats.archive import Member, ZipArchive
from assay.checkpoint.listing import list_tensors
from assay.checkpoint.pickle.machine import PickleMachine
from assay.checkpoint.pickle.represented import dtype_name
from assay.checkpoint.pickle.values import RawStorage
from assay.checkpoint.pickle.walking import PickleContents, ScriptedRoles, collect
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import one_line, plural

_PICKLE = "data.pkl"
DescribedPickle = tuple[PickleContents, PickleMachine]


def read(archive: ZipArchive) -> Checkpoint:
    """The checkpoint in an archive written by torch.save."""
    described = describe(archive)
    archive.forget()
    return checkpoint("torch-zip", archive.region.path, *described)


def checkpoint(format: str, path: str, contents: PickleContents, machine: PickleMachine) -> Checkpoint:
    """The checkpoint that one pickle describes, with a note on the code that loading it would have run."""
    return Checkpoint(
        format,
        path,
        list_tensors(path, contents.tensors, contents.roles),
        contents.facts,
        contents.modules,
        globals=tuple(machine.foreign),
        notes=(*contents.notes, *not_run_note(machine.foreign, machine.called)),
        holds=f"a {'pickle' if format == 'pickle' else 'torch.save file'} of {contents.holds}",
    )


def prefix_of(archive: ZipArchive) -> str:
    """The top-level directory of the archive that contains data.pkl, with a trailing slash; may be empty."""
    prefixes = [member.removesuffix(_PICKLE) for member in archive.members if f"/{member}".endswith(f"/{_PICKLE}")]
    top = [prefix for prefix in prefixes if prefix.count("/") <= 1]
    if len(top) != 1:
        number = "several" if top else "no"
        wrong = f"is a zip archive with {number} {_PICKLE}, not a checkpoint: expected the output of torch.save"
        raise ReadError(f"{one_line(archive.region.path)} {wrong}")
    return top[0]


class Unpickled(NamedTuple):
    """A pickle of the archive: its value, the machine that read it, and the region it is in."""

    value: Any
    machine: PickleMachine
    region: Region


def unpickle(archive: ZipArchive, pickle: str = _PICKLE, records: str | None = "data/") -> Unpickled:
    """What one pickle of the archive describes; its storages are the archive members under `records`, if given."""
    prefix = prefix_of(archive)
    region = archive.open(prefix + pickle)
    storages: dict[tuple[str, str], RawStorage] = {}
    machine = PickleMachine(Stream(region), lambda pid: _storage(archive.region.path, storages, pid))
    value = machine.load()
    if records is not None:
        _locate_all(archive, prefix + records, storages.values(), swapped=is_swapped(archive))
    return Unpickled(value, machine, region)


def describe(
    archive: ZipArchive, pickle: str = _PICKLE, records: str = "data/", scripted: ScriptedRoles | None = None
) -> DescribedPickle:
    """The contents of one pickle of the archive, and the machine that read it."""
    value, machine, region = unpickle(archive, pickle, records)
    return collect(archive.region.path, value, region, scripted), machine


def not_run_note(foreign: Collection[str], called: Collection[str]) -> tuple[str, ...]:
    """A note on the code that loading the file would have run: what it imports, and what of that it calls."""
    if not foreign:
        return ()
    named = ", ".join(one_line(name, 60) for name in islice(called, 5))
    more = f" and {len(called) - 5} more" if len(called) > 5 else ""
    calls = f"and call {named}{more}" if called else "and call none of them"
    imports = plural(len(foreign), "global")
    return (f"code not run: loading it with torch would import {imports} {calls}",)


def _storage(path: str, storages: dict[tuple[str, str], RawStorage], pid: Any) -> RawStorage:
    """The storage of a persistent id: ("storage", class, key, device, number of elements)."""
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or type(pid[2]) is not str:
        raise ReadError(f"{one_line(path)} is damaged: it has a persistent id that is not a storage")
    dtype = dtype_name(pid[1]) or "unknown"
    key = (pid[2], dtype)
    if key not in storages:
        storages[key] = RawStorage(pid[2], dtype, pid[4])
    elif type(pid[4]) is not int or storages[key].numel != pid[4]:
        raise ReadError(f"{one_line(path)} is rejected: storage {one_line(pid[2])} has two sizes")
    return storages[key]


def _locate_all(archive: ZipArchive, records: str, storages: Iterable[RawStorage], *, swapped: bool) -> None:
    """Locate every storage in the archive and check its size against the pickle."""
    path = one_line(archive.region.path)
    storages = list(storages)
    members = []
    for storage in storages:
        member = archive.members.get(records + storage.key)
        if member is None:
            raise ReadError(f"{path} is damaged: storage {one_line(storage.key)} is missing from the archive")
        _check_size(path, storage, member.size)
        members.append(member)
    for storage, member, start in zip(storages, members, archive.starts(members), strict=True):
        locate(archive, storage, member, start)
        if swapped:
            storage.swap()


def locate(archive: ZipArchive, storage: RawStorage, member: Member, start: int) -> None:
    """Record that the bytes of `storage` are in `member`, whose data starts at `start`."""
    encoded, problem = archive.record(member, start)
    offset = archive.region.base + start if encoded is None else 0
    storage.set_location("" if problem else archive.region.path, offset, member.size, encoded)
    storage.problem = problem
    storage.checksum = archive.checksum(member, start)


def _check_size(path: str, storage: RawStorage, size: int) -> None:
    width, count = item_bytes(storage.dtype), storage.numel
    if type(count) is not int or count < 0:
        raise ReadError(f"{path} is damaged: storage {one_line(storage.key)} has no valid size")
    # A byte storage viewed as wider elements may end with an incomplete one.
    if width and not 0 <= size - count * width < width:
        raise ReadError(f"{path} is damaged: storage {one_line(storage.key)} has {size} bytes, not {count * width}")


def is_swapped(archive: ZipArchive) -> bool:
    """Whether the archive's numbers are big-endian."""
    name = f"{prefix_of(archive)}byteorder"
    return name in archive.members and archive.read(name, 64) == b"big"
