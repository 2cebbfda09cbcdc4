"""Identifies files, mostly by their first bytes; no other module does. No code from a file is run."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import Region
from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.shards import INDEX as INDEX_NAME
from assay.errors import ReadError
from assay.messages import one_line

DOCUMENT, CONFIG, INDEX = "document", "config", "index"
"""Kinds of JSON file: a saved document, a transformers config, an index of shards."""
PT2, TORCHSCRIPT, TORCH_ZIP = "pt2", "torchscript", "torch-zip"
TORCH_TAR, TORCH_LEGACY, PICKLE = "torch-tar", "torch-legacy", "pickle"
SAFETENSORS, GGUF = "safetensors", "gguf"
NPY, NPZ = "npy", "npz"
TRACE = "trace"
"""A Chrome or Kineto trace, as profilers write it."""

SUPPORTED = (
    "safetensors, torch.save, TorchScript, .pt2, GGUF, .npy, .npz, a distributed checkpoint, an index of shards, "
    "a transformers config or a saved document"
)

HEAD = 4096
"""Bytes by which most files are recognised."""
_MAX_JSON_BYTES = 24 << 20
"""Bytes of a JSON file that are searched for known keys, if its name does not identify it."""


class Recognised(NamedTuple):
    """A file and its kind."""

    kind: str
    region: Region
    archive: ZipArchive | None = None
    """Its members, if it is a zip archive."""


def recognise(region: Region) -> Recognised:
    """The kind of the file in `region`; if it is not supported, the `ReadError` names what it is instead."""
    head = region.read(0, min(HEAD, region.size))
    if head[:4] in (b"PK\3\4", b"PK\5\6"):
        return _zip(region)
    if head[:2] == b"\x1f\x8b" and (region.path.endswith(".assay.json.gz") or _holds_document(head)):
        return Recognised(DOCUMENT, region)
    if is_trace(head):
        return Recognised(TRACE, region)
    for test, kind in _KINDS:
        if test(head):
            return Recognised(kind, region)
    if _is_json(head):
        return Recognised(_json(region, head), region)
    problems = (problem for pattern, problem in _UNSUPPORTED if re.match(pattern, head))
    problem = next(problems, f"is not a file that Assay reads: expected {SUPPORTED}")
    raise ReadError(f"{one_line(region.path)} {problem}")


def read(recognised: Recognised, *, lenient: bool = False) -> Checkpoint:
    """The checkpoint in a recognised file; `ReadError` if that kind of file contains no tensors."""
    if recognised.kind not in _READERS:
        raise ReadError(f"{one_line(recognised.region.path)} {_NO_TENSORS[recognised.kind]}")
    reader: Any = import_module(f"assay.checkpoint.formats.{_READERS[recognised.kind]}")
    options = {"lenient": lenient} if recognised.kind == SAFETENSORS else {}
    checkpoint: Checkpoint = reader.read(recognised.archive or recognised.region, **options)
    return checkpoint


_READERS = {
    PT2: "pt2",
    TORCHSCRIPT: "torchscript",
    TORCH_ZIP: "torch_zip",
    TORCH_TAR: "legacy_tar",
    TORCH_LEGACY: "legacy",
    PICKLE: "legacy",
    GGUF: "gguf",
    SAFETENSORS: "safetensors",
    NPY: "numpy_array",
    NPZ: "numpy_archive",
}
"""The module that reads each kind; imported on demand, since most commands read only one format."""

_NO_TENSORS = {
    DOCUMENT: "is a saved Assay document, not a checkpoint: give the checkpoint that it was made from",
    CONFIG: "is a transformers config, not a checkpoint: give the directory or the file with the weights",
    INDEX: "is an index of shards, not a shard: indexes cannot be nested",
    TRACE: "is a profiler trace, not a checkpoint: use assay trace, or assay check",
}


def _zip(region: Region) -> Recognised:
    archive = ZipArchive(region)
    members = ["/" + name for name in archive.members]
    for pattern, kind in _MEMBERS:
        if any(map(re.compile(pattern).search, members)):
            if kind not in _READERS:
                raise ReadError(f"{one_line(region.path)} is {kind}, not a checkpoint: expected {SUPPORTED}")
            return Recognised(kind, region, archive)
    raise ReadError(
        f"{one_line(region.path)} is a zip archive without data.pkl, not a checkpoint: expected {SUPPORTED}"
    )


_MEMBERS = (
    (r"/models/[^/]+\.json$|/archive_format$|/serialized_exported_program\.json$|/data/aotinductor/", PT2),
    (r"^(?:/[^/]+)?/constants\.pkl$", TORCHSCRIPT),
    (r"/data\.pkl$", TORCH_ZIP),
    (r"\.npy$", NPZ),
    (r"/model\.json$", "TorchScript from before torch 1.4"),
    (r"/\.data/extern_modules$", "a torch.package"),
)
"""Member names that identify a zip archive, and its kind; for unsupported archives a description."""


def _is_json(head: bytes) -> bool:
    """Whether a file starts like a JSON object; a safetensors file has a zero byte in its first 8 bytes."""
    return head.lstrip()[:1] == b"{" and b"\0" not in head[:8]


def _json(region: Region, head: bytes) -> str:
    if region.path.endswith(".assay.json") or _SAVED.match(head):
        return DOCUMENT
    if INDEX_NAME.search(region.path):
        return INDEX
    text = region.read(0, min(region.size, _MAX_JSON_BYTES))
    for key, kind in _JSON_KEYS.items():
        if key in text:
            return kind
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReadError(f"{one_line(region.path)} is not valid JSON: {one_line(error)}") from error
    expected = "a saved document, a transformers config or an index of shards with a weight_map"
    raise ReadError(f"{one_line(region.path)} is JSON of an unknown kind: expected {expected}")


_JSON_KEYS = {
    b'"traceEvents"': TRACE,
    b'"weight_map"': INDEX,
    b'"model_type"': CONFIG,
    b'"architectures"': CONFIG,
    b'"auto_map"': CONFIG,
}


_SAVED = re.compile(rb'\s*\{\s*"assay_schema"')


def _holds_document(head: bytes) -> bool:
    """Whether a gzip stream that starts with `head` contains a saved document."""
    try:
        return _SAVED.match(zlib.decompressobj(31).decompress(head, 64)) is not None
    except zlib.error:
        return False


def is_trace(head: bytes) -> bool:
    """Whether a file that starts with these bytes, compressed or not, is a trace."""
    if head[:2] == b"\x1f\x8b":
        try:
            head = zlib.decompressobj(31).decompress(head, _MAX_UNPACKED)
        except zlib.error:
            return False
    return _TRACE.match(head) is not None and _SAVED.match(head) is None


_MAX_UNPACKED = 1 << 16
_TRACE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:"
    rb'\{[\s\S]*"(?:traceEvents|displayTimeUnit|baseTimeNanoseconds)"\s*:|'
    rb'\[\s*\{[\s\S]{,400}"ph"\s*:)'
)
"""The keys at the start of a trace, which may also be only a list of events."""


def _is_safetensors(head: bytes) -> bool:
    # A pickle may have a brace there too, but never after three zero bytes.
    return head[8:9] == b"{" and (head[:1] != b"\x80" or head[5:8] == b"\0\0\0") and not _is_json(head)


_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""The pickled magic number at the start of a torch.save file in the legacy (not zip) format."""
_OLD_PICKLE = re.compile(rb"\(?[dlt]p?\d|\((?:dp|lp)|c[\w.]+\n[\w.]+\n|[}\])(]q\0|\(i[\w.]+\n")
"""The start of a pickle of protocol 0 or 1."""

_KINDS: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda head: head[:4] == b"GGUF", GGUF),
    (lambda head: head[:6] == b"\x93NUMPY", NPY),
    (lambda head: head[257:262] == b"ustar", TORCH_TAR),
    (_is_safetensors, SAFETENSORS),
    (lambda head: head.startswith(_LEGACY), TORCH_LEGACY),
    (lambda head: head[:1] == b"\x80" or _OLD_PICKLE.match(head) is not None, PICKLE),
)


_UNSUPPORTED = (
    (rb"$", "is empty: expected a checkpoint; download or copy it again"),
    (rb"version \w+://git-lfs", "is a git-LFS pointer, not the file itself: run git lfs pull"),
    (rb"(?i)\s*(?:<!--|<!doctype|<html|<\?xml|<head)", "is an HTML page, not a checkpoint: the download failed"),
    (rb"\x89HDF", "is an HDF5 file, which is not supported: convert it to safetensors"),
    (rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf", "is compressed: unpack it first"),
    (rb"\x08[\x01-\x0a]\x12", "looks like ONNX, which is not supported: give the PyTorch model or its weights"),
)
"""How common unsupported files start, and the error message for each."""
