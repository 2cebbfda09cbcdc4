"""Which format a file has, told from its bytes, and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Region, open_region
from assay.checkpoint.formats.archive import Archive
from assay.errors import ReadError
from assay.messages import brief

HEAD = 512
KNOWN = "safetensors, torch.save, TorchScript, .pt2, GGUF, a distributed checkpoint or an index of shards"


def open_single(path: str, *, lenient: bool = False) -> Checkpoint:
    """The checkpoint in one file."""
    with open_region(path) as region:
        head = region.read(0, min(HEAD, region.size))
        for test, read in _READERS:
            if test(head):
                return read(region, lenient)
        raise ReadError(f"{brief(path)} {_foreign(head)}")


def is_json(head: bytes) -> bool:
    """Whether a file begins like a JSON object; a safetensors header's length has a zero byte there."""
    return head.lstrip()[:1] == b"{" and b"\0" not in head[:8]


def _zip(region: Region, lenient: bool) -> Checkpoint:
    archive = Archive(region)
    members = ["/" + name for name in archive.members]
    for pattern, read in _ARCHIVES:
        if any(pattern.search(member) for member in members):
            return read(archive)
    raise ReadError(f"{brief(region.path)} is a zip archive that holds no data.pkl: not a checkpoint")


def _not_torch(what: str) -> Callable[[Archive], Checkpoint]:
    def refuse(archive: Archive) -> Checkpoint:
        raise ReadError(f"{brief(archive.region.path)} is {what}, and {KNOWN} was wanted")

    return refuse


def _reader(name: str) -> Any:
    """The module that reads this format, imported when a file needs it: most commands see one format."""
    return import_module(f"assay.checkpoint.formats.{name}")


_ARCHIVES: tuple[tuple[re.Pattern[str], Callable[[Archive], Checkpoint]], ...] = (
    (
        re.compile(r"/models/[^/]+\.json$|/archive_format$|/serialized_exported_program\.json$"),
        lambda archive: _reader("pt2").read(archive),
    ),
    (re.compile(r"^(?:/[^/]+)?/constants\.pkl$"), lambda archive: _reader("torchscript").read(archive)),
    (re.compile(r"/data\.pkl$"), lambda archive: _reader("torch_zip").read(archive)),
    (re.compile(r"\.npy$"), _not_torch("a numpy archive")),
    (re.compile(r"/model\.json$"), _not_torch("TorchScript from before torch 1.4")),
    (re.compile(r"/\.data/extern_modules$"), _not_torch("a torch.package")),
)


def _is_safetensors(head: bytes) -> bool:
    # A pickle may have a brace there as well, and never three zero bytes before it.
    return head[8:9] == b"{" and (head[:1] != b"\x80" or head[5:8] == b"\0\0\0")


_OLD_PICKLE = re.compile(rb"\(?[dlt]p?\d|\((?:dp|lp)|c[\w.]+\n[\w.]+\n|[}\])(]q\0|\(i[\w.]+\n")
"""How pickles of protocols 0 and 1 begin."""

_READERS: tuple[tuple[Callable[[bytes], bool], Callable[[Region, bool], Checkpoint]], ...] = (
    (lambda head: head[:4] in (b"PK\3\4", b"PK\5\6"), _zip),
    (lambda head: head[:4] == b"GGUF", lambda region, lenient: _reader("gguf").read(region)),
    (lambda head: head[257:262] == b"ustar", lambda region, lenient: _reader("legacy_tar").read(region)),
    (
        lambda head: not is_json(head) and _is_safetensors(head),
        lambda r, lenient: _reader("safetensors").read(r, lenient=lenient),
    ),
    (
        lambda head: head[:1] == b"\x80" or _OLD_PICKLE.match(head) is not None,
        lambda r, lenient: _reader("legacy").read(r),
    ),
)


def _foreign(head: bytes) -> str:
    """What a file is that is no checkpoint, in words that tell how it came to be one's file."""
    for pattern, what in _FOREIGN:
        if re.match(pattern, head):
            return what
    return f"is none of the files that are read: {KNOWN} was wanted"


_FOREIGN = (
    (rb"$", "is empty"),
    (rb"version \w+://git-lfs", "is a git-LFS pointer, not the file itself: run git lfs pull"),
    (rb"(?i)\s*(?:<!--|<!doctype|<html|<\?xml|<head)", "is an HTML page, not a checkpoint: the download went wrong"),
    (rb"\s*\{", "is JSON without a weight_map: not a checkpoint or an index of one"),
    (rb"\x89HDF", "is an HDF5 file, which is not read: convert it to safetensors"),
    (rb"\x93NUMPY", "is a numpy array, not a checkpoint"),
    (rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf", "is compressed: unpack it first"),
    (rb"\x08[\x01-\x0a]\x12", "looks like ONNX, which is not read"),
)
