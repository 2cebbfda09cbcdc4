"""Writes TorchScript archives by hand: zip members with source text and pickles, without torch.jit."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

Made = bytes | Callable[[], bytes]
"""The content of a member, or a function that makes it when the file is written, because it is large."""
Text = str | Made | Callable[[], str]
"""Source, in the same two ways."""
NONE, TRUE = b"N", b"\x88"
EMPTY = b"\x80\x02)."
"""A pickle of no constants."""


def text(value: str) -> bytes:
    """The opcode of a string."""
    encoded = value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def number(value: int) -> bytes:
    """The opcode of an integer of any size."""
    size = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(size)]) + size


def tuple_of(*items: bytes) -> bytes:
    """The opcodes of a tuple."""
    return b"(" + b"".join(items) + b"t"


def list_of(*items: bytes) -> bytes:
    """The opcodes of a list."""
    return b"](" + b"".join(items) + b"e"


def dict_of(values: dict[str, bytes]) -> bytes:
    """The opcodes of a dictionary with strings as keys."""
    return b"}(" + b"".join(text(name) + value for name, value in values.items()) + b"u"


def call(module: str, name: str, *arguments: bytes) -> bytes:
    """The opcodes that call a global."""
    return f"c{module}\n{name}\n".encode() + tuple_of(*arguments) + b"R"


def instance(name: str, values: dict[str, bytes], module: str = "__torch__") -> bytes:
    """The opcodes of an object of a class of the archive."""
    return f"c{module}\n{name}\n".encode() + b")\x81" + dict_of(values) + b"b"


def put(index: int) -> bytes:
    """The opcode that remembers the last value."""
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    """The opcode that repeats a remembered value."""
    return b"j" + struct.pack("<I", index)


def tensor(
    shape: tuple[int, ...] = (4,), strides: tuple[int, ...] = (1,), key: str = "0", numel: int = 4, offset: int = 0
) -> bytes:
    """The opcodes of a float32 tensor in the storage `key`."""
    storage = tuple_of(text("storage"), b"ctorch\nFloatStorage\n", text(key), text("cpu"), number(numel)) + b"Q"
    sizes = (tuple_of(*map(number, shape)), tuple_of(*map(number, strides)))
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        storage,
        number(offset),
        *sizes,
        TRUE,
        call("collections", "OrderedDict"),
    )


def pickled(value: bytes) -> bytes:
    """A whole pickle."""
    return b"\x80\x02" + value + b"."


def state(**values: bytes) -> dict[str, bytes]:
    """The attributes that every module has, and these."""
    return {"training": TRUE, "_is_full_backward_hook": NONE, **values}


MODULE = """\
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
"""
"""The head of a module's class."""
FORWARD = """\
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
"""


def forward(body: str, before: str = "", fields: str = "") -> str:
    """The source of a module whose forward method consists of `body`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return before + MODULE + fields + FORWARD + lines


def write(path: Path, code: Text, data: Made | None = None, **others: Made | None) -> None:
    """An archive with this source and this module object; further members by name, `None` leaves one out."""
    source = code() if callable(code) else code
    members: dict[str, Made | None] = {
        "data.pkl": pickled(instance("M", state())) if data is None else data,
        "code/__torch__.py": source.encode() if isinstance(source, str) else source,
        "data/0": bytes(16),
        "constants.pkl": EMPTY,
        "version": b"3\n",
        "byteorder": b"little",
        **{name.replace("__", "/").replace("_pkl", ".pkl"): value for name, value in others.items()},
    }
    made = {name: value() if callable(value) else value for name, value in members.items()}
    write_members(path, {name: value for name, value in made.items() if value is not None})


def write_members(path: Path, members: dict[str, bytes]) -> None:
    """A zip archive of these members, whose source files are compressed."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in members.items():
            method = zipfile.ZIP_DEFLATED if name.startswith("code/") else zipfile.ZIP_STORED
            archive.writestr(f"hostile/{name}", value, compress_type=method, compresslevel=1)
