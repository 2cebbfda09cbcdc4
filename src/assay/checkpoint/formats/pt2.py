"""The weights of a .pt2 archive: a JSON table and the raw bytes. `sources.exported` reads the graph."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from assay.checkpoint.dtypes import item_bytes
from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.formats.archive import STORED, ZipArchive
from assay.checkpoint.formats.pt2_schema import Payload, PayloadConfig, SignedProgram, TensorMeta
from assay.checkpoint.formats.pt2_values import DTYPES, SymbolicSizes
from assay.checkpoint.formats.safetensors import check_json_size
from assay.checkpoint.formats.torch_zip import describe, locate
from assay.checkpoint.listing import list_tensors
from assay.checkpoint.pickle.values import RawStorage, TensorValue
from assay.document.roles import BUFFER, CONSTANT, PARAMETER
from assay.errors import ReadError
from assay.messages import one_line

_CONFIG = re.compile(r"((?:^|.*/)data/(weights|constants)/)([^/]+)_\2_config\.json$")
_OLD = ("serialized_state_dict.pt", "serialized_constants.pt", "serialized_state_dict.json")
"""Before torch 2.8, exported programs stored their tensors as torch.save files in the archive."""

_PROGRAMS = ("models/{}.json", "serialized_exported_program.json")
_ROLES = {"parameter": PARAMETER, "buffer": BUFFER, "tensor_constant": CONSTANT}
"""Kinds of graph inputs that are tensors of the program."""

MAX_TABLES = 200
"""Two per program; for each, all members of the archive are searched."""

NamedValues = list[tuple[str, TensorValue]]


def read(archive: ZipArchive) -> Checkpoint:
    """The parameters, buffers and constants of every program in the archive."""
    path = archive.region.path
    configs = [match for match in map(_CONFIG.match, archive.members) if match]
    if len(configs) > MAX_TABLES:
        raise ReadError(f"{one_line(path)} is rejected: it has {len(configs):,} tables of weights")
    several = len({match[3] for match in configs}) > 1
    named: NamedValues = []
    roles: dict[str, str] = {}
    notes: list[str] = []
    storages: dict[str, RawStorage] = {}
    for match in configs:
        payloads, signed = _config(archive, match[0]).config, _signed_roles(archive, match[3])
        for name, payload in payloads.items():
            shown = f"{match[3]}.{name}" if several else name
            tensors = _payload(archive, shown, match[1] + payload.path_name, payload, storages, notes)
            stated = PARAMETER if payload.is_param else BUFFER if match[2] == "weights" else CONSTANT
            roles.update((tensor, signed.get(name, stated)) for tensor, _ in tensors)
            named += tensors
    if not configs:
        named, notes = _old(archive)
        roles = _signed_roles(archive, "")
    return Checkpoint("pt2", path, list_tensors(path, named, roles), notes=tuple(notes))


def _signed_roles(archive: ZipArchive, program: str) -> dict[str, str]:
    """The roles in the signature of a program, by name; none if there is no readable one."""
    ends = tuple(end.format(program) for end in _PROGRAMS)
    members = [name for name in archive.members if name.endswith(ends)]
    try:
        specs = _input_specs(archive, members[0]) if len(members) == 1 else []
    except (msgspec.DecodeError, UnicodeError, RecursionError, ReadError):
        return {}
    return {
        str(spec[kind].get(f"{kind}_name")): role for spec in specs for kind, role in _ROLES.items() if kind in spec
    }


def _input_specs(archive: ZipArchive, member: str) -> list[dict[str, dict[str, Any]]]:
    """The kind of each input of the program in `member`."""
    program = msgspec.json.decode(archive.read(member), type=SignedProgram)
    specs = program.graph_module.signature.input_specs
    check_json_size(archive.region.path, bytes(specs), one_line(member))
    return msgspec.json.decode(specs, type=list[dict[str, dict[str, Any]]])


def _config(archive: ZipArchive, member: str) -> PayloadConfig:
    data = archive.read(member)
    check_json_size(archive.region.path, data, one_line(member))
    try:
        return msgspec.json.decode(data, type=PayloadConfig)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        wrong = f"{one_line(member)} is not a valid table of weights ({one_line(error)})"
        raise ReadError(f"{one_line(archive.region.path)} is damaged: {wrong}") from error


def _payload(
    archive: ZipArchive, name: str, member: str, payload: Payload, storages: dict[str, RawStorage], notes: list[str]
) -> NamedValues:
    if member not in archive.members:
        missing = f"{one_line(member)}, the data of tensor {one_line(name)}, is missing"
        raise ReadError(f"{one_line(archive.region.path)} is damaged: {missing}")
    if payload.tensor_meta is None:
        notes.append(f"{one_line(name, 60)} is a pickled object, not a tensor: skipped")
        return []
    if _is_archive(archive, member):
        return [(f"{name}.{inner}" if inner else name, tensor) for inner, tensor in _inner(archive, member)]
    return [(name, _tensor(archive, name, member, payload.tensor_meta, storages))]


def _is_archive(archive: ZipArchive, member: str) -> bool:
    """Whether a member is itself a torch.save file, as tensor subclasses are."""
    info = archive.members[member]
    return info.method == STORED and info.size > 4 and archive.part(member).read(0, 4) == b"PK\3\4"


def _inner(archive: ZipArchive, member: str) -> NamedValues:
    return describe(ZipArchive(archive.part(member)))[0].tensors


def _tensor(
    archive: ZipArchive, name: str, member: str, meta: TensorMeta, storages: dict[str, RawStorage]
) -> TensorValue:
    dtype = DTYPES.get(meta.dtype, "unknown")
    storage = storages.get(member)
    if storage is None:
        info = archive.members[member]
        storage = storages[member] = RawStorage(member, dtype, info.size // (item_bytes(dtype) or 1))
        locate(archive, storage, info, archive.starts([info])[0])
    try:
        sizes = SymbolicSizes()
        shape = tuple(map(sizes.number, meta.sizes))
        strides = tuple(map(sizes.number, meta.strides))
        offset = sizes.number(meta.storage_offset) if meta.storage_offset else 0
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReadError(
            f"{one_line(archive.region.path)} is damaged: tensor {one_line(name)} has invalid sizes"
        ) from error
    return TensorValue(storage, offset, shape, strides)


def _old(archive: ZipArchive) -> tuple[NamedValues, list[str]]:
    """The tensors of an archive written before torch 2.8, and a note if there are none."""
    named: NamedValues = []
    for member in archive.members:
        if member.rpartition("/")[2] in _OLD and _is_archive(archive, member):
            named += _inner(archive, member)
    return named, [] if named else ["no weights listed: the archive has no table of weights"]
