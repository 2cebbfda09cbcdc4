"""Reads the directory of a zip archive and locates the data of each member.

The standard library's reader is not used: it builds one object per member, which takes most of the time for an
archive of 20,000 tensors, and it does not report where a member's data starts.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from assay.checkpoint.entries import ByteRange, Checksum, EncodedBytes
from assay.checkpoint.files import BytesFile, Region, truncated
from assay.checkpoint.remote import is_url
from assay.errors import ReadError
from assay.messages import one_line, plural

STORED, DEFLATED = 0, 8
MAX_DIRECTORY_BYTES = 24 << 20
"""Enough for approximately 250,000 members."""
MAX_MEMBER_BYTES = 48 << 20
"""Limit, in bytes, for a member that is read whole."""
MAX_RATIO = 200
"""Text compresses about 10:1; 1000:1 is a zip bomb."""
_WINDOW = 1 << 20
"""Bytes that are verified at a time."""
_SMALL_BYTES = 1 << 16
"""Members that decompress to at most this many bytes are read whatever their ratio."""
_SMALL_RECORD_BYTES = 64 << 20
"""The same limit for tensor records, which are read in pieces: tensors of zeros compress 1000:1."""

_END = struct.Struct("<4s4xHHIIH")
_END_64 = struct.Struct("<4s20xQQQQ")
_LOCATOR_64 = struct.Struct("<4s4xQI")
_MEMBER = struct.Struct("<4s4xHH4xIIIHHH8xI")
_LOCAL = struct.Struct("<4s22xHH")
_FULL = 0xFFFFFFFF


class Member(NamedTuple):
    """A file in the archive."""

    name: str
    header: int
    """Offset of its local header in the region."""
    packed: int
    size: int
    method: int
    crc: int | None
    """CRC-32 of the decompressed bytes; None if the writer did not compute it."""


class ZipArchive:
    """The members of a zip archive in a region."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self._start = 0
        self.members  # noqa: B018  a damaged directory is reported when the archive is opened

    @cached_property
    def members(self) -> dict[str, Member]:
        """The members by name."""
        return {member.name: member for member in self._directory()}

    def forget(self) -> None:
        """Free the members, of which there may be 150,000; they are read again if they are needed again."""
        del self.members

    def read(self, name: str, limit: int = MAX_MEMBER_BYTES) -> bytes:
        """The decompressed bytes of a member; `ReadError` if it is larger than `limit` or looks like a zip bomb."""
        member = self.member(name)
        if member.size > limit:
            raise self._rejected(f"{one_line(name)} has {member.size} bytes, the limit is {limit}")
        part = self.part(name)
        if member.method == STORED:
            data = part.read(0, member.size)
            self._check_sum(member, zlib.crc32(data))
            return data
        if member.method != DEFLATED or member.size > max(_SMALL_BYTES, member.packed * MAX_RATIO):
            raise self._rejected(f"{one_line(name)} is compressed in a way that no checkpoint writer uses")
        try:
            # Asking for one extra byte reveals a member that decompresses to more than its declared size.
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(part.read(0, member.packed), member.size + 1)
        except zlib.error as error:
            raise self._damaged(f"{one_line(name)} cannot be decompressed") from error
        if len(data) != member.size:
            raise self._damaged(f"{one_line(name)} does not decompress to its declared size")
        self._check_sum(member, zlib.crc32(data))
        return data

    def open(self, name: str) -> Region:
        """A member as a region, decompressed in memory if necessary. A local one of sensible size is verified."""
        member, part = self.member(name), self.part(name)
        if member.method == STORED:
            if member.size <= MAX_MEMBER_BYTES and not is_url(part.path):
                crc = 0
                for offset in range(0, part.size, _WINDOW):
                    crc = zlib.crc32(part.read(offset, min(_WINDOW, part.size - offset)), crc)
                self._check_sum(member, crc)
            return part
        data = self.read(name)
        span = ByteRange(part.path, part.base, part.size)
        encoded = EncodedBytes(span, "deflate", len(data), crc=member.crc)
        return Region(BytesFile(self.region.path, data, encoded))

    def record(self, member: Member, start: int) -> tuple[EncodedBytes | None, str]:
        """How to decode the tensor data of a member that starts at `start`, or why that is not possible.

        (None, "") means that the data is stored uncompressed.
        """
        if member.method == STORED:
            return None, ""
        span = ByteRange(self.region.path, self.region.base + start, member.packed)
        if member.method != DEFLATED:
            return None, f"its data is compressed with zip method {member.method}, which is not supported"
        if member.size > max(_SMALL_RECORD_BYTES, member.packed * MAX_RATIO):
            return None, f"its data is compressed {member.size // max(member.packed, 1)}:1, above the limit"
        return EncodedBytes(span, "deflate", member.size, crc=member.crc), ""

    def checksum(self, member: Member, start: int) -> Checksum | None:
        """The checksum of a record that is stored uncompressed and starts at `start`; None if it has none."""
        if member.method != STORED or member.crc is None:
            return None
        return Checksum(ByteRange(self.region.path, self.region.base + start, member.size), member.crc)

    def member(self, name: str) -> Member:
        """The member of this name; `ReadError` if there is none."""
        if name not in self.members:
            raise self._damaged(f"it lacks {one_line(name)}")
        return self.members[name]

    def part(self, name: str) -> Region:
        """The region of a member's stored bytes, possibly compressed."""
        member = self.member(name)
        return self.region.part(self.starts([member])[0], member.packed)

    def starts(self, members: Iterable[Member]) -> list[int]:
        """The offset at which each member's data starts; checks that it ends before the directory."""
        members = list(members)
        headers = self.region.read_many([member.header for member in members], _LOCAL.size)
        starts = []
        for member, header in zip(members, headers, strict=True):
            magic, name_length, extra_length = _LOCAL.unpack(header)
            start = member.header + _LOCAL.size + name_length + extra_length
            if magic != b"PK\3\4" or start + member.packed > self._start:
                raise self._damaged(f"{one_line(member.name)} is not where the zip directory says")
            starts.append(start)
        return starts

    @property
    def _path(self) -> str:
        return one_line(self.region.path)

    def _damaged(self, why: str) -> ReadError:
        return ReadError(f"{self._path} is damaged: {why}")

    def _check_sum(self, member: Member, crc: int) -> None:
        if member.crc is not None and crc != member.crc:
            raise self._damaged(f"{one_line(member.name)} does not match its CRC-32; copy or download the file again")

    def _rejected(self, why: str) -> ReadError:
        return ReadError(f"{self._path} is rejected: {why}")

    def _directory(self) -> list[Member]:
        count, size, start = self._end()
        if size > MAX_DIRECTORY_BYTES:
            raise self._rejected(f"its zip directory has {size} bytes, the limit is {MAX_DIRECTORY_BYTES}")
        self._start = start
        data = self.region.read(start, size)
        members: list[Member] = []
        position = 0
        while position + _MEMBER.size <= size and data[position : position + 4] == b"PK\1\2":
            member, position = self._member(data, position)
            members.append(member)
        if len(members) != count:
            raise self._damaged(f"its zip directory lists {len(members)} of {plural(count, 'member')}")
        self._check_overlaps(members)
        return members

    def _member(self, data: bytes, position: int) -> tuple[Member, int]:
        _, flags, method, crc, packed, size, name, extra, comment, header = _MEMBER.unpack_from(data, position)
        start = position + _MEMBER.size
        end = start + name + extra + comment
        text = data[start : start + name].decode("utf-8", "backslashreplace")
        if end > len(data):
            raise self._damaged("its zip directory is truncated")
        if flags & 1:
            raise ReadError(f"{self._path} cannot be read: {one_line(text)} is encrypted; decrypt the archive first")
        if _FULL in (packed, size, header):
            size, packed, header = self._large(data[start + name : start + name + extra], size, packed, header)
        if method == STORED and packed != size:
            raise self._damaged(f"{one_line(text)} is not compressed, but its stored size differs from its size")
        # torch writes 0 with set_crc32_options(False), and for data that it skips (skip_data).
        return Member(text, header, packed, size, method, crc or None), end

    def _large(self, extra: bytes, *fields: int) -> tuple[int, int, int]:
        """`fields` (size, packed size, header offset) with saturated 32-bit values replaced by their zip64 ones."""
        position = 0
        while position + 4 <= len(extra):
            kind, length = struct.unpack_from("<HH", extra, position)
            if kind == 1:
                numbers = iter(struct.unpack_from(f"<{min(length, 24) // 8}Q", extra, position + 4))
                size, packed, header = (next(numbers, -1) if field == _FULL else field for field in fields)
                if min(size, packed, header) >= 0:
                    return size, packed, header
            position += 4 + length
        raise self._damaged("its zip directory lacks the size of a member")

    def _check_overlaps(self, members: list[Member]) -> None:
        """Raise `ReadError` if two members have the same name or share bytes."""
        names: set[str] = set()
        for member in members:
            if member.name in names:
                raise self._rejected(f"it contains {one_line(member.name)} twice")
            names.add(member.name)
        end = 0
        for member in sorted(members, key=lambda member: member.header):
            if member.header < end:
                raise self._rejected(f"{one_line(member.name)} overlaps another member")
            end = member.header + _LOCAL.size + member.packed

    def _end(self) -> tuple[int, int, int]:
        """The number of members, and the size and offset of the directory."""
        tail_size = min(self.region.size, (1 << 16) + _END.size)
        first = self.region.size - tail_size
        tail = self.region.read(first, tail_size)
        position = tail.rfind(b"PK\5\6")
        if position < 0 or position + _END.size > tail_size:
            raise truncated(self.region.path, "it starts like a zip archive but has no zip directory at its end")
        _, _, count, size, start, _ = _END.unpack_from(tail, position)
        end = first + position
        if position >= _LOCATOR_64.size and tail[position - _LOCATOR_64.size :].startswith(b"PK\6\7"):
            end = _LOCATOR_64.unpack_from(tail, position - _LOCATOR_64.size)[1]
            magic, _, count, size, start = _END_64.unpack(self.region.read(end, _END_64.size))
            if magic != b"PK\6\6":
                raise self._damaged("its zip directory is not where the end record says")
        if start + size > end:
            raise self._damaged("its zip directory is not where the end record says")
        return count, size, start
