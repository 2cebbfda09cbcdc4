"""The two files of uniques as structs: what is encoded and what the schema says come from here."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from assay import host
from assay.analysis.uniques import unique_modules, unique_ops
from assay.analysis.uniques.entries import Count, UniqueModule, UniqueOp
from assay.document.document import Document, Failure
from assay.version import __version__

MODULES_NAME = "unique_modules.json"
OPS_NAME = "pytorch_ops.json"


class EntryProvenance(Struct, frozen=True):
    """How the entries were obtained."""

    assay: str
    torch: str
    mode: str
    inputs_from: str
    assumptions: tuple[str, ...]
    complete: bool
    """Whether the forward pass reached its end."""
    failure: Failure | None


class ModulesMetadata(Struct, frozen=True):
    """What the list of unique modules is about."""

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
    """What the list of unique operations is about."""

    source_modules_json: str
    total_ops: Count
    unique_ops: Count
    timestamp: str
    provenance: EntryProvenance


class OpsFile(Struct, frozen=True):
    """The unique operations of one model; module ids are those of the list of unique modules."""

    metadata: OpsMetadata
    ops: list[UniqueOp]


def modules_file(document: Document) -> ModulesFile:
    """The unique modules of `document` as their file holds them."""
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
    """The unique operations of `document` as their file holds them."""
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
    """The bytes of a file, indented by two, with a final line end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def encode_lines(entries: Sequence[Struct]) -> bytes:
    """One entry a line."""
    return msgspec.json.Encoder().encode_lines(entries)


def timestamp(document: Document) -> str:
    """When the model was watched, to the second in its own zone; now, where the document does not say."""
    return (document.run.timestamp or host.now())[: len("2026-02-02T10:30:00")]


def provenance(document: Document) -> EntryProvenance:
    """How what `document` holds was obtained."""
    run = document.run
    return EntryProvenance(
        assay=__version__,
        torch=document.machine.torch,
        mode=run.mode,
        inputs_from=run.inputs_from,
        assumptions=run.assumptions,
        complete=document.complete,
        failure=run.failure,
    )
