"""The .npz format: a zip archive with one .npy member per array, stored or deflated."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.checkpoint.entries import Checkpoint, EncodedBytes, Entry
from assay.checkpoint.files import Region
from assay.checkpoint.formats.archive import Member, ZipArchive
from assay.checkpoint.formats.numpy_array import SUFFIX, array_in, extra_note
from assay.checkpoint.unpacking import DecodedRange, DeflateDecoder
from assay.errors import ReadError
from assay.messages import one_line, plural

FORMAT = "npz"


def read(archive: ZipArchive) -> Checkpoint:
    """The arrays of a .npz file, named as numpy.load names them; damaged ones are listed in `failures`."""
    members = [member for member in archive.members.values() if member.name.endswith(SUFFIX)]
    entries: list[Entry] = []
    extra = 0
    failures: list[str] = []
    for member, start in zip(members, archive.starts(members), strict=True):
        try:
            entry, after = array_in(_contents(archive, member, start), member.name.removesuffix(SUFFIX))
        except ReadError as error:
            failures.append(f"array {one_line(member.name)} cannot be read: {error}")
            continue
        entries.append(replace(entry, checksum=archive.checksum(member, start)))
        extra += after
    if failures and not entries:
        raise ReadError(f"{one_line(archive.region.path)}: cannot read any of its arrays; {failures[0]}")
    return Checkpoint(
        FORMAT,
        archive.region.path,
        entries,
        notes=(*extra_note(extra), *_others(list(archive.members.keys() - {member.name for member in members}))),
        failures=tuple(failures),
    )


def _contents(archive: ZipArchive, member: Member, start: int) -> Region:
    """The decoded bytes of a member whose stored bytes start at `start`."""
    encoded, problem = archive.record(member, start)
    if problem:
        raise ReadError(f"{one_line(archive.region.path)}: {problem}")
    stored = archive.region.part(start, member.packed)
    return stored if encoded is None else Region(_DeflatedFile(stored, encoded))


class _DeflatedFile:
    """The decoded bytes of a deflated region."""

    def __init__(self, region: Region, encoded: EncodedBytes) -> None:
        self.path = region.path
        self.size = encoded.size
        self.encoded = encoded
        self._decoded = DecodedRange(encoded, DeflateDecoder(), region.read)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, or a `ReadError`."""
        return self._decoded.read(offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length)."""
        return [self.read(offset, length) for offset, length in ranges]

    def close(self) -> None:
        """Do nothing: the owner of the underlying file closes it."""


def _others(names: list[str]) -> tuple[str, ...]:
    """A note on the members that are not arrays, if any."""
    if not names:
        return ()
    return (f"{plural(len(names), 'other member')} of the archive not read, such as {one_line(min(names))}",)
