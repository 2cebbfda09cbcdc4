"""What a file is, told from its bytes and not from its name."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from assay.document.files import SUFFIXES
from assay.errors import ReadError
from assay.messages import brief, said

_HEAD = 4096
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""The pickled magic number that opens a file of torch.save from before it wrote zip files."""

WEIGHTS_ONLY = "holds weights without code: point at the function that builds the model, or its config.json"


def kind_of(path: Path) -> str:
    """`document`, `config`, `exported`, `scripted`, `saved` (by torch.save) or `pickled` (by pickle)."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise ReadError(f"cannot read {brief(path)}: {error.strerror or said(error)}") from error
    if not head:
        raise ReadError(f"{brief(path)} is empty")
    for test, kind in _KINDS:
        if test(head):
            return kind(path) if callable(kind) else kind
    raise ReadError(f"{brief(path)} is none of the files Assay opens: {_KNOWN}")


def holds_weights(path: Path, *, trust: bool = False) -> bool:
    """Whether it is a file or folder of weights that holds no code; a pickle is taken for one unless trusted."""
    if path.is_dir():
        return not (path / "config.json").exists()
    if not path.is_file() or path.suffix == ".py":
        return False
    if path.name.endswith(".index.json"):
        return True
    try:
        return kind_of(path) in ("saved", "pickled", "scripted") and not trust
    except ReadError:
        return True


_KNOWN = "a saved document, a config.json, an exported program, TorchScript or a pickled module"


def _zip_kind(path: Path) -> str:
    """What the members of a zip file say it is."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = ["/" + name for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise ReadError(f"{brief(path)} is damaged: {said(error)}") from error
    for pattern, kind in _MEMBERS:
        if any(pattern.search(member) for member in members):
            return kind
    raise ReadError(f"{brief(path)} is a zip file that holds no model: {_KNOWN} was wanted")


def _json_kind(path: Path) -> str:
    """Whether a JSON file is a document or a config; reading it whole is left to their readers."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    named_so = path.name.endswith(SUFFIXES)
    return "document" if named_so or re.match(rb'\s*\{\s*"assay_schema"', head) else "config"


def _weights(path: Path) -> str:
    raise ReadError(f"{brief(path)} {WEIGHTS_ONLY}")


def _is_safetensors(head: bytes) -> bool:
    return len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32


_MEMBERS = (
    (re.compile(r"/models/[^/]+\.json$|/archive_format$|/serialized_exported_program\.json$"), "exported"),
    (re.compile(r"/constants\.pkl$"), "scripted"),
    (re.compile(r"/data\.pkl$"), "saved"),
)

_KINDS: tuple[tuple[Callable[[bytes], bool], str | Callable[[Path], str]], ...] = (
    (lambda head: head.startswith(b"PK\x03\x04"), _zip_kind),
    (lambda head: head.startswith(b"\x1f\x8b"), "document"),
    (lambda head: head.lstrip().startswith(b"{"), _json_kind),
    (lambda head: head.startswith(_LEGACY), "saved"),
    (_is_safetensors, _weights),
    (lambda head: head.startswith(b"GGUF"), _weights),
    (lambda head: head.startswith(b"\x80"), "pickled"),
)
