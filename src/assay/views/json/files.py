"""The structs of `unique_modules.json` and `pytorch_ops.json`, from which the schemas are generated, and encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay import host
from assay.analysis.training_mode import own_modes
from assay.analysis.uniques import unique_modules, unique_ops
from assay.analysis.uniques.entries import Count, UniqueModule, UniqueOp
from assay.document.document import Document, Failure
from assay.version import __version__
from assay.views.partial import PARTIAL

MODULES_NAME = "unique_modules.json"
OPS_NAME = "pytorch_ops.json"


class ResultFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first keys of every result of a pass, present only if the pass stopped midway."""

    partial: bool = False
    """Whether a requested pass stopped midway: totals of the forward pass cover only the ops before, or the training
    step is absent."""
    failure: Failure | None = None
    """Where and why it stopped."""


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


class ModulesFile(ResultFile, frozen=True):
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


class OpsFile(ResultFile, frozen=True):
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
    return ModulesFile(metadata, entries, **partial_keys(document))


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
    return OpsFile(metadata, entries, **partial_keys(document))


def encode(value: Struct) -> bytes:
    """`value` as JSON, indented by two spaces, with a final line break."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def encode_lines(entries: Sequence[Struct], *, partial: bool = False) -> bytes:
    """The entries as JSON lines, one per line, each marked if they come from a pass that stopped midway."""
    lines = [{**msgspec.to_builtins(entry), PARTIAL: True} for entry in entries] if partial else entries
    return msgspec.json.Encoder().encode_lines(lines)


def partial_keys(document: Document) -> dict[str, Any]:
    """The values of the keys of `ResultFile`."""
    return {"partial": document.stopped, "failure": document.failure}


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
        complete=document.recorded and document.complete,
        failure=run.failure,
        training=run.training,
        as_is=run.as_is,
        own_modes=own_modes(document),
    )
