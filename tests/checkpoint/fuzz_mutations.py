"""Damages files in ways that keep their structure, so that the damage reaches the code behind the first check.

Archives are rebuilt around one damaged member with right checksums, pickles are changed opcode by opcode, JSON value
by value, text token by token. Everything is chosen by the `Random` that is passed in.
"""

from __future__ import annotations

import io
import json
import pickletools
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

from assay.checkpoint.pickle.represented import HARMLESS

_ALL_ONES = tuple((1 << bits) - 1 for bits in (7, 8, 16, 31, 32, 63, 64))
EDGES = (0, 1, 2, *(1 << bits for bits in (7, 31, 32, 62, 63)), *_ALL_ONES)
"""The limits of integer types."""
UNSTRUCTURED_SHARE = 0.3


def mutated(rng: Random, data: bytes) -> bytes:
    """`data` damaged according to its format or, sometimes, without regard to it."""
    if not data or rng.random() < UNSTRUCTURED_SHARE:
        return _bytes(rng, data)
    return _STRUCTURED[_kind(data)](rng, data)


def _steps(rng: Random) -> range:
    """From 1 to 6 steps, most often few."""
    return range(rng.choice((1, 1, 1, 2, 3, 6)))


def _bytes(rng: Random, data: bytes) -> bytes:
    """Bytes overwritten, removed, inserted, copied, or replaced by the limit of an integer type."""
    for _ in _steps(rng):
        # Headers are at the front.
        at = int(len(data) * (rng.random() ** 2 if rng.random() < 0.5 else rng.random()))
        to, piece = rng.randint(0, len(data)), rng.randbytes(rng.randint(1, 9))
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == 1:
            data = data[:at] + data[at + len(piece) :] if rng.random() < 0.7 else data[: max(at, 1)]
        elif kind == 2:
            data = data[:at] + piece + data[at:]
        elif kind == 3:
            data = data[:at] + data[to : to + 40] + data[at:]
        else:
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice(EDGES) if kind == 4 else rng.randrange(64)
            order = rng.choice(("little", "big"))
            data = data[:at] + (number % (1 << 8 * width)).to_bytes(width, order) + data[at + width :]
    return data


def _pickle(rng: Random, data: bytes) -> bytes:
    """Opcodes removed, copied, exchanged and inserted."""
    pieces, rest = _opcodes(data)
    codes = list(pieces)
    for _ in _steps(rng):
        at, to = rng.randint(0, len(codes)), rng.randint(0, len(codes))
        count, kind = rng.choice((1, 1, 1, 2, 5)), rng.randrange(7)
        if kind == 0:
            del codes[at : at + count]
        elif kind == 1:
            codes[at:at] = codes[to : to + 8 * count]
        elif kind == 2:
            codes[at : at + count], codes[to : to + count] = codes[to : to + count], codes[at : at + count]
        elif kind == 3:
            codes[at:at] = [rng.choice(_OPCODES) for _ in range(count)]
        elif kind == 4:
            codes[at : at + 1] = [rng.choice(_OPCODES)]
        elif kind == 5:
            codes[at : at + 1] = [_integer(rng.choice(EDGES) * rng.choice((1, 1, -1)))]
        else:
            codes[at:at] = codes[to : to + 1] * rng.choice((10, 2000))
    return b"".join(codes) + rest


@cache
def _opcodes(data: bytes) -> tuple[tuple[bytes, ...], bytes]:
    """The opcodes of the pickles at the start of `data`, and the bytes after them."""
    codes: list[bytes] = []
    done = 0
    try:
        while True:
            starts = [done + at for _, _, at in pickletools.genops(data[done:])]
            end = starts[-1] + 1
            codes += [data[first:last] for first, last in zip(starts, [*starts[1:], end], strict=True)]
            done = end
    except (ValueError, IndexError, UnicodeError, struct.error):
        return tuple(codes), data[done:]


def _integer(value: int) -> bytes:
    """The opcode that pushes an integer."""
    size = value.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(size)]) + size


def _text_code(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


_OPCODES = (
    *(code.code.encode("latin-1") for code in pickletools.opcodes if code.arg is None),
    *(b"h" + bytes([index]) for index in range(12)),
    *(b"q" + bytes([index]) for index in range(12)),
    b"j\xff\xff\xff\x7f",
    b"r\xff\xff\xff\x7f",
    *map(_integer, EDGES),
    *map(_text_code, ("", "storage", "0", "cpu", "shape", "_parameters")),
    *(f"c{module}\n{name}\n".encode() for module, name in HARMLESS),
    *(b"cposix\nmkdir\n(" + _text_code("canary") + b"tR", b"cbuiltins\neval\n", b"cos\nsystem\n"),
    b"\x82\x01",
    b"F1e999\n",
    b"\x8c\x01a",
    b"B\xff\xff\xff\x7f",
    b"C\x02ab",
    b"\x96\x02\0\0\0\0\0\0\0ab",
)  # fmt: skip
"""Opcodes to insert: all without arguments, some with, and calls that no reader may run."""


def _json(rng: Random, data: bytes) -> bytes:
    """Values of a JSON document replaced, removed, copied and renamed."""
    root = [json.loads(data)]
    for _ in _steps(rng):
        places = list(_places(root))
        owner, key = rng.choice(places)
        kind = rng.randrange(5)
        if kind == 0 and owner is not root:
            del owner[key]
        elif kind == 1 and isinstance(owner, dict):
            owner[rng.choice(("__metadata__", "", "a", "../b", str(key) * 2))] = owner.pop(key)
        elif kind == 2:
            other, its_key = rng.choice(places)
            owner[key] = json.loads(json.dumps(other[its_key]))
        else:
            owner[key] = rng.choice(_JSON_VALUES)()
    return json.dumps(root[0]).encode()


def _places(value: Any) -> Any:
    """Every (container, key) inside `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


_JSON_VALUES: tuple[Callable[[], Any], ...] = (
    *((lambda edge=edge: edge) for edge in EDGES),
    lambda: -1,
    lambda: 1.5,
    lambda: None,
    lambda: True,
    lambda: "F32",
    lambda: "x" * 300,
    lambda: "../../etc/passwd",
    lambda: [1 << 62, 0],
    lambda: [0] * 70,
    list,
    dict,
)


def _text(rng: Random, data: bytes) -> bytes:
    """Tokens removed, copied and replaced."""
    tokens = re.findall(r"\w+|\s+|[^\w\s]", data.decode("utf-8", "replace"))
    for _ in _steps(rng):
        at, to = rng.randint(0, len(tokens)), rng.randint(0, len(tokens))
        kind = rng.randrange(4)
        if kind == 0:
            del tokens[at : at + rng.choice((1, 3))]
        elif kind == 1:
            tokens[at:at] = tokens[to : to + rng.choice((1, 5, 20))]
        elif kind == 2:
            tokens[at:at] = [rng.choice(_TOKENS)] * rng.choice((1, 1, 500))
        else:
            tokens[at : at + 1] = [rng.choice(_TOKENS)]
    return "".join(tokens).encode()


_TOKENS = (
    *"()[]{},:.'\"=-@\n\\",
    *map(str, EDGES),
    *("True", "None", "1.5", "'<f4'", "'|O'", "'<V2'", "'descr'", "'shape'", "self", "def f():\n", "lambda"),
    *("__import__('os').mkdir('canary')", "exec", "(2,)", "[('a', '<f4')]", "9" * 5000),
)


def _safetensors(rng: Random, data: bytes) -> bytes:
    """The header damaged and its length set right."""
    end = 8 + int.from_bytes(data[:8], "little")
    header, values = data[8:end], data[end:]
    header = _json(rng, header) if rng.random() < 0.6 else mutated(rng, header)
    values = values if rng.random() < 0.8 else _bytes(rng, values)
    return struct.pack("<Q", len(header)) + header + values


def _npy(rng: Random, data: bytes) -> bytes:
    """The header damaged and its length set right."""
    end = 10 + int.from_bytes(data[8:10], "little")
    header = _text(rng, data[10:end])
    wide = len(header) > 0xFFFF or rng.random() < 0.2
    prefix = b"\2\0" + struct.pack("<I", len(header)) if wide else b"\1\0" + struct.pack("<H", len(header))
    return b"\x93NUMPY" + prefix + header + data[end:]


def _zip(rng: Random, data: bytes) -> bytes:
    """One member damaged, renamed, removed or copied; the rest of the archive intact, or with one wrong field."""
    members = list(_members(data))
    structured = [index for index, member in enumerate(members) if _kind(member[2]) not in ("bytes", "text")]
    at = rng.choice(structured) if structured and rng.random() < 0.5 else rng.randrange(len(members))
    (name, method, plain), kind = members[at], rng.randrange(10)
    if kind < 7:
        members[at] = name, method, mutated(rng, plain)
    elif kind == 7:
        members[at] = rng.choice((rng.choice(members)[0], name[1:], f"{name}/x", "w.npy")), method, plain
    elif kind == 8 and len(members) > 1:
        del members[at]
    else:
        members.append((f"{name}2", rng.choice((0, 8, method)), plain))
    lie = (rng.randrange(len(members)), rng.randrange(5), rng.choice(EDGES)) if rng.random() < 0.15 else None
    return zipped(members, lie)


@cache
def _members(data: bytes) -> tuple[tuple[str, int, bytes], ...]:
    """The name, compression method and plain bytes of the members of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return tuple((item.filename, item.compress_type, archive.read(item)) for item in archive.infolist())


def zipped(members: Sequence[tuple[str, int, bytes]], lie: tuple[int, int, int] | None = None) -> bytes:
    """A zip archive of (name, method, bytes); `lie` is (member, field, value): one wrong field in the directory."""
    body, directory = bytearray(), bytearray()
    for index, (name, method, plain) in enumerate(members):
        label = name.encode("utf-8", "surrogateescape")
        packer = zlib.compressobj(wbits=-15)
        packed = packer.compress(plain) + packer.flush() if method == 8 else plain
        fields = [method, zlib.crc32(plain), len(packed), len(plain), len(body)]
        body += struct.pack("<4sHHHIIIIHH", b"PK\3\4", 20, 0, method, 0, *fields[1:4], len(label), 0) + label + packed
        if lie is not None and lie[0] == index:
            fields[lie[1]] = lie[2] & (0xFFFF if lie[1] == 0 else 0xFFFFFFFF)
        method, crc, packed_size, size, start = fields
        directory += struct.pack("<4sHHHHIIII", b"PK\1\2", 20, 20, 0, method, 0, crc, packed_size, size)
        directory += struct.pack("<HHHHHII", len(label), 0, 0, 0, 0, 0, start) + label
    count, size, start = len(members), len(directory), len(body)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), size, start, 0)
    if count >= 0xFFFF:
        large = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
        end = large + struct.pack("<4sIQI", b"PK\6\7", 0, start + size, 1) + end
    return bytes(body + directory + end)


def _tar(rng: Random, data: bytes) -> bytes:
    """One member damaged, or one header field with the checksum set right."""
    if rng.random() < 0.3:
        start = rng.choice([at for at in range(0, len(data) - 512, 512) if data[at + 257 : at + 262] == b"ustar"])
        field, width = rng.choice(((0, 100), (124, 12), (156, 1), (157, 100)))
        value = rng.choice((rng.randbytes(width), b"%o" % rng.choice(EDGES), b"\x80" + bytes(3) + b"\xff" * 8, b"x"))
        header = bytearray(data[start : start + 512])
        header[field : field + width] = value[:width].ljust(width, b"\0")
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        return data[:start] + bytes(header) + data[start + 512 :]
    members = list(_tarred(data))
    at = rng.randrange(len(members))
    members[at] = members[at][0], mutated(rng, members[at][1])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, plain in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(plain)
            archive.addfile(entry, io.BytesIO(plain))
    return buffer.getvalue()


@cache
def _tarred(data: bytes) -> tuple[tuple[str, bytes], ...]:
    """The names and bytes of the members of a tar archive."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return tuple((item.name, archive.extractfile(item).read()) for item in archive if item.isfile())


@cache
def _kind(data: bytes) -> str:
    """The structure by which `data` is damaged."""
    if data[:4] == b"PK\3\4":
        return "zip"
    if data[:6] == b"\x93NUMPY":
        return "npy"
    if data[257:262] == b"ustar":
        return "tar"
    if data[8:9] == b"{" and data[:8].endswith(b"\0"):
        return "safetensors"
    if len(_opcodes(data)[0]) > 3:
        return "pickle"
    try:
        text = data.decode("utf-8")
        json.loads(text)
        return "json" if text[:1] in "{[" else "text"
    except UnicodeError:
        return "bytes"
    except ValueError:
        return "text" if text.isprintable() or "\n" in text else "bytes"


_STRUCTURED: dict[str, Callable[[Random, bytes], bytes]] = {
    "zip": _zip,
    "npy": _npy,
    "tar": _tar,
    "safetensors": _safetensors,
    "pickle": _pickle,
    "json": _json,
    "text": _text,
    "bytes": _bytes,
}
