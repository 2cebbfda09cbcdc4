"""Exported programs (`torch.export.save`) read as what they are: a zip of JSON. No torch, nothing run."""

from __future__ import annotations

import os

import msgspec

from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.pt2_values import SymbolicSizes
from assay.document.document import Document, InputTensor, Machine, Origin, Run
from assay.errors import ReadError
from assay.sources.exported import tensors as exported_tensors
from assay.sources.exported import tree as exported_tree
from assay.sources.exported.archive import Contents, contents
from assay.sources.exported.graph import flatten
from assay.sources.exported.kinds import Kinds

NEWEST_SCHEMA = 8


def read(archive: ZipArchive) -> Document:
    """The document of an exported program: its tree, tensors and operations as the file describes them."""
    path, held = archive.region.path, contents(archive)
    exported = held.program
    if exported.schema_version.major > NEWEST_SCHEMA:
        raise ReadError(
            f"{path} was written by a newer torch (export schema {exported.schema_version.major}, this reads up to "
            f"{NEWEST_SCHEMA}): export it with an older torch or upgrade torch-assay"
        )
    try:
        return _document(path, held)
    except _MISFITS as error:
        raise ReadError(f"{path} is damaged: its graph does not hold together ({error!r})") from error


_MISFITS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, msgspec.MsgspecError)
"""What a graph raises that names what is not there or holds one thing where another belongs."""


def _document(path: str, held: Contents) -> Document:
    exported, sizes, kinds = held.program, SymbolicSizes(), Kinds()
    program = flatten(exported.graph_module, sizes)
    stock = exported_tensors.take(exported.graph_module, held, sizes)
    tree = exported_tree.grow(exported.graph_module, program, stock.by_name)
    ops = [kinds.op(step, program.values, call) for step, call in zip(program.steps, tree.call_of, strict=True)]
    return Document(
        origin=Origin("exported", path, os.path.basename(path)),
        machine=Machine(torch=exported.torch_version or ""),
        run=Run(
            mode="none",
            inputs=tuple(InputTensor(name, program.values[value].type) for name, value in program.inputs),
            inputs_from="the file's example inputs" if program.inputs else "",
            assumptions=(*held.notes, *program.notes, *sizes.notes(), *tree.notes, _NOT_IN_THE_FILE),
        ),
        modules=tree.modules,
        tensors=stock.tensors,
        calls=tree.calls,
        kinds=kinds.rows,
        ops=ops,
    )


_NOT_IN_THE_FILE = "attributes that were left at their defaults are not in the file"
