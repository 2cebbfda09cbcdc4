"""Reading exported programs (`torch.export.save`) as data, a zip of JSON: without torch, without running them."""

from __future__ import annotations

import os

import msgspec

from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.pt2_values import SymbolicSizes
from assay.document.document import Document, InputTensor, Machine, Origin, Run
from assay.document.op_names import public_name
from assay.document.rows import Op, Operand, OpKind
from assay.errors import ReadError
from assay.sources.exported import tensors as exported_tensors
from assay.sources.exported import tree as exported_tree
from assay.sources.exported.archive import Contents, contents
from assay.sources.exported.graph import Program, Step, Value, flatten

NEWEST_SCHEMA = 8


def read(archive: ZipArchive) -> Document:
    """The document of an exported program: its modules, tensors and ops as described in the file."""
    path, archived = archive.region.path, contents(archive)
    exported = archived.program
    if exported.schema_version.major > NEWEST_SCHEMA:
        raise ReadError(
            f"{path} was written by a newer torch (export schema {exported.schema_version.major}, supported up to "
            f"{NEWEST_SCHEMA}): export it with an older torch or upgrade torch-assay"
        )
    try:
        return _document(path, archived)
    except _ERRORS as error:
        raise ReadError(f"{path} is damaged: its graph is inconsistent ({error!r}); export it again") from error


_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, msgspec.MsgspecError)
"""Errors raised by a graph that refers to missing names or has values of the wrong type."""


def _document(path: str, archived: Contents) -> Document:
    exported, sizes = archived.program, SymbolicSizes()
    program = flatten(exported.graph_module, sizes)
    program_tensors = exported_tensors.collect(exported.graph_module, archived, sizes)
    tree = exported_tree.build(exported.graph_module, program, program_tensors.by_name)
    kinds, ops = _ops(program, tree.call_of)
    return Document(
        origin=Origin("exported", path, os.path.basename(path)),
        machine=Machine(torch=exported.torch_version or ""),
        run=Run(
            mode="none",
            inputs=tuple(InputTensor(name, program.values[value].type) for name, value in program.inputs),
            inputs_from="the file's example inputs" if program.inputs else "",
            assumptions=(*archived.notes, *program.notes, *sizes.notes(), *tree.notes, _NOT_IN_THE_FILE),
        ),
        modules=tree.modules,
        tensors=program_tensors.tensors,
        calls=tree.calls,
        kinds=kinds,
        ops=ops,
    )


_NOT_IN_THE_FILE = "arguments left at their defaults are not in the file"


def _ops(program: Program, call_of: list[int]) -> tuple[list[OpKind], list[Op]]:
    """The kinds of ops in order of appearance, and one op per step, with its kind and its call."""
    kinds: dict[bytes, OpKind] = {}
    places: dict[bytes, int] = {}
    ops: list[Op] = []
    for step, call in zip(program.steps, call_of, strict=True):
        kind = _kind(step, program.values)
        key = msgspec.json.encode(kind)
        kinds.setdefault(key, kind)
        ops.append(Op(places.setdefault(key, len(places)), call))
    return list(kinds.values()), ops


def _kind(step: Step, values: list[Value]) -> OpKind:
    """The kind of op that a step executes."""
    namespace, _, rest = step.target.partition(".")
    base, _, overload = rest.partition(".")
    written = _written(base, overload, [label for label, _ in step.tensors])
    first: dict[int, int] = {}
    inputs = []
    for position, (label, value) in enumerate(step.tensors):
        earlier = first.setdefault(value, position)
        alias = earlier if earlier != position else None
        inputs.append(Operand(label, values[value].type, values[value].role, alias, label in written))
    places = [position for position, item in enumerate(inputs) if item.written]
    outputs = tuple(
        Operand(f"output[{index}]" if index else "output", values[value].type, alias=_at(places, index))
        for index, value in enumerate(step.outputs)
    )
    return OpKind(public_name(namespace, base), step.target, step.attributes, tuple(inputs), outputs)


def _written(base: str, overload: str, labels: list[str]) -> set[str]:
    """The operands that the op writes to, by torch's naming rules: `relu_` its first, `add.out` its `out`."""
    if base.endswith("_") and not base.endswith("__"):
        return set(labels[:1])
    return {label for label in labels if label.startswith("out")} if overload.endswith("out") else set()


def _at(places: list[int], index: int) -> int | None:
    return places[index] if index < len(places) else None
