"""The directory of a zip archive and where each member's bytes really start.

Written out here because the standard reader builds an object a member, which takes longer than all the
rest for an archive of 20,000 tensors, and does not say where a member's data lies.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from assay.checkpoint.entries import ByteRange, EncodedBytes
from assay.checkpoint.files import HeldFile, Region
from assay.errors import ReadError
from assay.messages import brief

STORED, DEFLATED = 0, 8
LARGEST_DIRECTORY = 24 << 20
"""Some 250,000 members."""
LARGEST_MEMBER = 48 << 20
"""Bytes of a member that is read whole."""
LARGEST_RATIO = 200
"""Text compresses tenfold; a thousandfold is a trap."""
_SMALL = 1 << 16
"""A member that unpacks to no more than this is read whatever its ratio."""
_SMALL_RECORD = 64 << 20
"""The same for records, which are read in pieces: tensors of zeros are packed a thousandfold."""

_END = struct.Struct("<4s4xHHIIH")
_END_64 = struct.Struct("<4s20xQQQQ")
_LOCATOR_64 = struct.Struct("<4s4xQI")
_MEMBER = struct.Struct("<4s4xHH8xIIHHH8xI")
_LOCAL = struct.Struct("<4s22xHH")
_FULL = 0xFFFFFFFF


class Member(NamedTuple):
    """A file in the archive."""

    name: str
    header: int
    """Where its local header lies in the region."""
    packed: int
    size: int
    method: int


class ZipArchive:
    """The members of a zip archive in a region."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self._start = 0
        self.members = {member.name: member for member in self._directory()}

    def read(self, name: str, limit: int = LARGEST_MEMBER) -> bytes:
        """A whole member, unpacked where that stays within bounds."""
        member = self.members[name]
        if member.size > limit:
            raise ReadError(
                f"{self._path} is refused: {brief(name)} takes {member.size} bytes, at most {limit} are read"
            )
        part = self.part(name)
        if member.method == STORED:
            return part.read(0, member.size)
        if member.method != DEFLATED or member.size > max(_SMALL, member.packed * LARGEST_RATIO):
            raise ReadError(f"{self._path} is refused: {brief(name)} is packed in a way that no real checkpoint is")
        try:
            # One byte more than announced shows a member that unpacks to more than it says.
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(part.read(0, member.packed), member.size + 1)
        except zlib.error as error:
            raise self._damaged(f"{brief(name)} cannot be unpacked") from error
        if len(data) != member.size:
            raise self._damaged(f"{brief(name)} unpacks to another size than it says")
        return data

    def open(self, name: str) -> Region:
        """A member to be read from front to back."""
        if self.members[name].method == STORED:
            return self.part(name)
        part, data = self.part(name), self.read(name)
        coded = EncodedBytes(ByteRange(part.path, part.base, part.size), "deflate", len(data))
        return Region(HeldFile(self.region.path, data, coded))

    def record(self, member: Member, start: int) -> tuple[EncodedBytes | None, str]:
        """How the numbers in a member whose data starts at `start` are had, or why they cannot be."""
        if member.method == STORED:
            return None, ""
        span = ByteRange(self.region.path, self.region.base + start, member.packed)
        if member.method != DEFLATED:
            return None, f"its record is compressed by a method (number {member.method}) that is not read"
        if member.size > max(_SMALL_RECORD, member.packed * LARGEST_RATIO):
            return None, f"its record is compressed {member.size // max(member.packed, 1)}-fold: not unpacked"
        return EncodedBytes(span, "deflate", member.size), ""

    def part(self, name: str) -> Region:
        """Where a member's bytes lie, packed as they are."""
        member = self.members[name]
        return self.region.part(self.starts([member])[0], member.packed)

    def starts(self, members: Iterable[Member]) -> list[int]:
        """Where in the region each member's data starts, checked to lie before the directory."""
        wanted = list(members)
        headers = self.region.read_many([member.header for member in wanted], _LOCAL.size)
        found = []
        for member, header in zip(wanted, headers, strict=True):
            magic, name_length, extra_length = _LOCAL.unpack(header)
            start = member.header + _LOCAL.size + name_length + extra_length
            if magic != b"PK\3\4" or start + member.packed > self._start:
                raise self._damaged(f"{brief(member.name)} does not lie where the directory says")
            found.append(start)
        return found

    @property
    def _path(self) -> str:
        return brief(self.region.path)

    def _damaged(self, why: str) -> ReadError:
        return ReadError(f"{self._path} is damaged: {why}")

    def _directory(self) -> list[Member]:
        count, size, start = self._end()
        if size > LARGEST_DIRECTORY:
            raise ReadError(f"{self._path} is refused: a zip directory of {size} bytes, more than any checkpoint has")
        self._start = start
        data = self.region.read(start, size)
        members: list[Member] = []
        position = 0
        while position + _MEMBER.size <= size and data[position : position + 4] == b"PK\1\2":
            member, position = self._member(data, position)
            members.append(member)
        if len(members) != count:
            raise self._damaged(f"its zip directory names {len(members)} of {count} members")
        self._no_twins(members)
        return members

    def _member(self, data: bytes, position: int) -> tuple[Member, int]:
        _, flags, method, packed, size, name, extra, comment, header = _MEMBER.unpack_from(data, position)
        start = position + _MEMBER.size
        end = start + name + extra + comment
        text = data[start : start + name].decode("utf-8", "backslashreplace")
        if end > len(data):
            raise self._damaged("its zip directory is cut short")
        if flags & 1:
            raise ReadError(f"{self._path} is refused: {brief(text)} is encrypted")
        if _FULL in (packed, size, header):
            size, packed, header = self._large(data[start + name : start + name + extra], size, packed, header)
        if method == STORED and packed != size:
            raise self._damaged(f"{brief(text)} is stored as it is, in another size than its own")
        return Member(text, header, packed, size, method), end

    def _large(self, extra: bytes, *fields: int) -> tuple[int, int, int]:
        """The 64-bit fields that replace those of `fields` that are full, in zip's own order."""
        position = 0
        while position + 4 <= len(extra):
            kind, length = struct.unpack_from("<HH", extra, position)
            if kind == 1:
                numbers = iter(struct.unpack_from(f"<{min(length, 24) // 8}Q", extra, position + 4))
                size, packed, header = (next(numbers, -1) if field == _FULL else field for field in fields)
                if min(size, packed, header) >= 0:
                    return size, packed, header
            position += 4 + length
        raise self._damaged("its zip directory lacks a member's size")

    def _no_twins(self, members: list[Member]) -> None:
        names: set[str] = set()
        for member in members:
            if member.name in names:
                raise ReadError(f"{self._path} is refused: it holds {brief(member.name)} twice")
            names.add(member.name)
        end = 0
        for member in sorted(members, key=lambda member: member.header):
            if member.header < end:
                raise ReadError(f"{self._path} is refused: {brief(member.name)} overlaps another member")
            end = member.header + _LOCAL.size + member.packed

    def _end(self) -> tuple[int, int, int]:
        """How many members there are, and the size and start of the directory."""
        tail_size = min(self.region.size, (1 << 16) + _END.size)
        first = self.region.size - tail_size
        tail = self.region.read(first, tail_size)
        place = tail.rfind(b"PK\5\6")
        if place < 0 or place + _END.size > tail_size:
            raise ReadError(
                f"{self._path} is cut short: it begins like a zip archive and has no directory at its end"
            )
        _, _, count, size, start, _ = _END.unpack_from(tail, place)
        end = first + place
        if place >= _LOCATOR_64.size and tail[place - _LOCATOR_64.size :].startswith(b"PK\6\7"):
            end = _LOCATOR_64.unpack_from(tail, place - _LOCATOR_64.size)[1]
            magic, _, count, size, start = _END_64.unpack(self.region.read(end, _END_64.size))
            if magic != b"PK\6\6":
                raise self._damaged("its zip directory does not lie where the end of the file says")
        if start + size > end:
            raise self._damaged("its zip directory does not lie where the end of the file says")
        return count, size, start
