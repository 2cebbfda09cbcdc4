"""The members of a `.pt2` archive that describe the program, decoded; the tensors' bytes stay untouched."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from assay.checkpoint.formats.pt2_schema import ExportedProgram, Payload, PayloadConfig
from assay.errors import ReadError

LARGEST_JSON = 1 << 30
"""Bytes of JSON beyond which a file is refused; the largest real programs have a few dozen MiB."""

_PROGRAM = re.compile(r"(?:^|/)models/([^/]+)\.json$")
_OLD_PROGRAM = re.compile(r"(?:^|/)serialized_exported_program\.json$")
_COMPILED = re.compile(r"(?:^|/)data/aotinductor/")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, OSError, RuntimeError, NotImplementedError)
"""What the zip module raises on damaged, truncated, encrypted or oddly compressed members."""

Read = TypeVar("Read")


class Archive(NamedTuple):
    """A program and where the bytes of its tensors lie."""

    program: ExportedProgram
    weights: dict[str, Payload]
    constants: dict[str, Payload]
    notes: tuple[str, ...]


def open_archive(path: Path) -> Archive:
    """The described program in `path`; raises `ReadError` where there is none that can be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path)
    except OSError as error:
        raise ReadError(f"cannot read {path}: {error.strerror or error}") from error
    except zipfile.BadZipFile as error:
        raise ReadError(f"{path} is no exported program: not a zip archive, or cut short ({error})") from error


def _read(archive: zipfile.ZipFile, path: Path) -> Archive:
    names = archive.namelist()
    member, notes = _program_member(names, path)
    program = _decode(archive, member, ExportedProgram, path)
    model = match.group(1) if (match := _PROGRAM.search(member)) else ""
    weights = _payloads(archive, names, f"data/weights/{model}_weights_config.json", path)
    constants = _payloads(archive, names, f"data/constants/{model}_constants_config.json", path)
    if not weights:
        notes = (*notes, "the archive does not say which tensors share their bytes")
    return Archive(program, weights, constants, notes)


def _program_member(names: list[str], path: Path) -> tuple[str, tuple[str, ...]]:
    found = sorted(name for name in names if _PROGRAM.search(name))
    if not found:
        found = [name for name in names if _OLD_PROGRAM.search(name)]
    if not found:
        compiled = any(_COMPILED.search(name) for name in names)
        held = "only compiled code (AOTInductor)" if compiled else "no models/*.json"
        raise ReadError(f"{path} is no exported program: it holds {held}; write it with torch.export.save")
    chosen = next((name for name in found if name.endswith("models/model.json")), found[0])
    rest = len(found) - 1
    return chosen, (f"the archive holds {rest} more programs; {chosen} was read",) if rest else ()


def _payloads(archive: zipfile.ZipFile, names: list[str], wanted: str, path: Path) -> dict[str, Payload]:
    member = next((name for name in names if name == wanted or name.endswith(f"/{wanted}")), None)
    return {} if member is None else _decode(archive, member, PayloadConfig, path).config


def _decode(archive: zipfile.ZipFile, member: str, wanted: type[Read], path: Path) -> Read:
    size = archive.getinfo(member).file_size
    if size > LARGEST_JSON:
        raise ReadError(f"{path} is refused: {member} would be {size >> 20} MiB of JSON, more than any real program")
    try:
        return msgspec.json.decode(archive.read(member), type=wanted)
    except msgspec.DecodeError as error:
        raise ReadError(f"{path} is damaged: {member} does not describe a program ({error})") from error
    except RecursionError as error:
        raise ReadError(f"{path} is damaged: {member} is nested without end") from error
    except _DAMAGE as error:
        raise ReadError(f"{path} is damaged: {member} cannot be unpacked ({error})") from error
