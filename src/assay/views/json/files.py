"""The structs of `unique_modules.json` and `pytorch_ops.json`, from which the schemas are generated, and encoders."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from assay import host
from assay.analysis.training_mode import own_modes
from assay.analysis.uniques import unique_modules, unique_ops
from assay.analysis.uniques.entries import Count, UniqueModule, UniqueOp
from assay.document.document import Document, Failure
from assay.version import __version__

MODULES_NAME = "unique_modules.json"
OPS_NAME = "pytorch_ops.json"


class EntryProvenance(Struct, frozen=True):
    """How the entries were obtained: versions, mode of the run, inputs, assumptions, and whether it completed."""

    assay: str
    torch: str
    mode: str
    inputs_from: str
    assumptions: tuple[str, ...]
    complete: bool
    """Whether the forward pass ran to its end."""
    failure: Failure | None
    training: bool
    """Whether the model ran in training mode."""
    as_is: bool
    """Whether every module ran in its own mode instead."""
    own_modes: dict[str, str]
    """`training` or `evaluation` before the pass, for the root and for modules that differ from their parent."""


class ModulesMetadata(Struct, frozen=True):
    """The model, the number of modules, and how they were obtained."""

    load_fn_location: str
    load_fn_name: str
    model_class: str
    total_modules: Count
    unique_modules: Count
    timestamp: str
    provenance: EntryProvenance


class ModulesFile(Struct, frozen=True):
    """The unique modules of one model."""

    metadata: ModulesMetadata
    modules: list[UniqueModule]


class OpsMetadata(Struct, frozen=True):
    """The number of ops, the file their module ids refer to, and how they were obtained."""

    source_modules_json: str
    total_ops: Count
    unique_ops: Count
    timestamp: str
    provenance: EntryProvenance


class OpsFile(Struct, frozen=True):
    """The unique ops of one model; module ids refer to the file of unique modules."""

    metadata: OpsMetadata
    ops: list[UniqueOp]


def modules_file(document: Document) -> ModulesFile:
    """The content of `unique_modules.json` for `document`."""
    entries = unique_modules(document).entries
    metadata = ModulesMetadata(
        load_fn_location=document.origin.location,
        load_fn_name=document.origin.name,
        model_class=document.model_class,
        total_modules=len(document.modules),
        unique_modules=len(entries),
        timestamp=timestamp(document),
        provenance=provenance(document),
    )
    return ModulesFile(metadata, entries)


def ops_file(document: Document, source_modules_json: str = MODULES_NAME) -> OpsFile:
    """The content of `pytorch_ops.json` for `document`."""
    entries = unique_ops(document, unique_modules(document))
    metadata = OpsMetadata(
        source_modules_json=source_modules_json,
        total_ops=len(document.ops),
        unique_ops=len(entries),
        timestamp=timestamp(document),
        provenance=provenance(document),
    )
    return OpsFile(metadata, entries)


def encode(value: Struct) -> bytes:
    """`value` as JSON, indented by two spaces, with a final line break."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def encode_lines(entries: Sequence[Struct]) -> bytes:
    """The entries as JSON lines, one per line."""
    return msgspec.json.Encoder().encode_lines(entries)


def timestamp(document: Document) -> str:
    """When the model was recorded, local time to the second; the current time if the document has none."""
    return (document.run.timestamp or host.now())[: len("2026-02-02T10:30:00")]


def provenance(document: Document) -> EntryProvenance:
    """How the content of `document` was obtained."""
    run = document.run
    return EntryProvenance(
        assay=__version__,
        torch=document.machine.torch,
        mode=run.mode,
        inputs_from=run.inputs_from,
        assumptions=run.assumptions,
        complete=document.complete,
        failure=run.failure,
        training=run.training,
        as_is=run.as_is,
        own_modes=own_modes(document),
    )
