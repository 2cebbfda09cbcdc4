"""Decoding the members of a `.pt2` archive that describe the program; the tensors' bytes are not read."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeVar

import msgspec

from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.pt2_schema import ExportedProgram, Payload, PayloadConfig
from assay.errors import ReadError
from assay.messages import one_line, plural

LARGEST_JSON = 1 << 30
"""Largest JSON member in bytes that is read; the largest real programs have a few dozen MiB."""

_PROGRAM = re.compile(r"(?:^|/)models/([^/]+)\.json$")
_OLD_PROGRAM = re.compile(r"(?:^|/)serialized_exported_program\.json$")
_COMPILED = re.compile(r"(?:^|/)data/aotinductor/")
Read = TypeVar("Read")


class Contents(NamedTuple):
    """A program and the location of its tensors' bytes."""

    program: ExportedProgram
    weights: dict[str, Payload]
    constants: dict[str, Payload]
    notes: tuple[str, ...]


def contents(archive: ZipArchive) -> Contents:
    """The program that the archive describes; raises `ReadError` if there is no readable program in it."""
    member, notes = _program_member(archive)
    program = _decode(archive, member, ExportedProgram)
    model = match.group(1) if (match := _PROGRAM.search(member)) else ""
    weights = _payloads(archive, f"data/weights/{model}_weights_config.json")
    constants = _payloads(archive, f"data/constants/{model}_constants_config.json")
    if not weights:
        notes = (*notes, "the archive does not record which tensors share storage")
    return Contents(program, weights, constants, notes)


def _program_member(archive: ZipArchive) -> tuple[str, tuple[str, ...]]:
    """The name of the member with the program, and a note if there are several programs."""
    members = sorted(filter(_PROGRAM.search, archive.members)) or list(filter(_OLD_PROGRAM.search, archive.members))
    if not members:
        compiled = any(map(_COMPILED.search, archive.members))
        content = "only compiled code (AOTInductor)" if compiled else "no models/*.json"
        raise ReadError(
            f"{one_line(archive.region.path)} is not an exported program: it contains {content}; "
            "write it with torch.export.save"
        )
    chosen = next((name for name in members if name.endswith("models/model.json")), members[0])
    rest = len(members) - 1
    note = f"the archive contains {plural(rest, 'more program')}; only {chosen} was read"
    return chosen, (note,) if rest else ()


def _payloads(archive: ZipArchive, member: str) -> dict[str, Payload]:
    name = next((each for each in archive.members if each == member or each.endswith(f"/{member}")), None)
    return {} if name is None else _decode(archive, name, PayloadConfig).config


def _decode(archive: ZipArchive, member: str, kind: type[Read]) -> Read:
    data = archive.read(member, LARGEST_JSON)
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ReadError(
            f"{one_line(archive.region.path)} is damaged: {member} does not describe a program ({error})"
        ) from error
    except (RecursionError, UnicodeDecodeError) as error:
        raise ReadError(f"{one_line(archive.region.path)} is damaged: {member} cannot be decoded") from error
