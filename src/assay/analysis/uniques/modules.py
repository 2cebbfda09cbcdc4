"""Unique modules: modules are equal if class, call signatures, configuration, own tensors and submodules are.

Submodules count because a container is defined by what it contains: two `Sequential`s with the same input and output
shapes differ if one contains a convolution and the other three blocks.
"""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET, Struct

from assay import units
from assay.analysis.cost.totals import module_totals
from assay.analysis.uniques.canonical import canonical
from assay.analysis.uniques.entries import CallSignature, ModuleFigures, OwnTensor, UniqueModule
from assay.document import tree
from assay.document.cost import CostTotals
from assay.document.document import Document
from assay.document.rows import Module, Tensor, TensorType

_Types = tuple[tuple[tuple[int, ...], str], ...]
_Signature = tuple[_Types, _Types]
_Key = tuple[object, ...]


class UniqueModules(Struct, frozen=True):
    """The unique modules in order of first appearance, and the id of each module's entry."""

    entries: list[UniqueModule]
    id_of: list[str]


def unique_modules(document: Document) -> UniqueModules:
    """The unique modules of `document`; every module belongs to exactly one entry."""
    signatures = _signatures(document)
    kinds = _kinds(document, signatures)
    groups: dict[int, list[int]] = {}
    for index in tree.preorder(document.modules):
        groups.setdefault(kinds[index], []).append(index)
    totals = None if document.cost is None else module_totals(document, document.cost)
    entries: list[UniqueModule] = []
    id_of = [""] * len(document.modules)
    for number, members in enumerate(groups.values()):
        cost = None if totals is None else _figures(totals[members[0]])
        entry = _entry(document, f"mod_{number:03d}", members, signatures[members[0]], cost)
        entries.append(entry)
        for index in members:
            id_of[index] = entry.id
    return UniqueModules(entries, id_of)


def _signatures(document: Document) -> list[Counter[_Signature]]:
    """The distinct call signatures of each module, in order of first call, with their counts."""
    result: list[Counter[_Signature]] = [Counter() for _ in document.modules]
    for call in document.calls:
        result[call.module][(_types(call.inputs), _types(call.outputs))] += 1
    return result


def _types(types: tuple[TensorType, ...]) -> _Types:
    return tuple((type.shape, type.dtype) for type in types)


def _kinds(document: Document, signatures: list[Counter[_Signature]]) -> list[int]:
    """For each module a number that equal modules share; children are numbered before their parents."""
    numbers: dict[_Key, int] = {}
    kinds = [0] * len(document.modules)
    below = tree.children(document.modules)
    for index in reversed(tree.preorder(document.modules)):
        module = document.modules[index]
        tensors = ((name, document.tensors[at]) for name, at in sorted(module.tensors.items()))
        own = tuple((name, tensor.type.shape, tensor.type.dtype, tensor.role) for name, tensor in tensors)
        inside = tuple((document.modules[child].path.rpartition(".")[2], kinds[child]) for child in below[index])
        key = (module.class_path, tuple(signatures[index]), canonical(module.config), own, inside)
        kinds[index] = numbers.setdefault(key, len(numbers))
    return kinds


def _figures(totals: CostTotals) -> ModuleFigures:
    return ModuleFigures(
        totals.flops, totals.macs if totals.known else None, totals.bytes if totals.recorded else None
    )


def _entry(
    document: Document, id: str, members: list[int], signatures: Counter[_Signature], cost: ModuleFigures | None
) -> UniqueModule:
    modules = document.modules
    first = modules[members[0]]
    calls = [_signature(inputs, outputs, count) for (inputs, outputs), count in signatures.items()]
    shown = calls[0] if calls else CallSignature([], [], [], [], 0)
    return UniqueModule(
        id=id,
        class_name=first.class_name,
        module_path=tree.path_text(first.path),
        parent=None if first.parent is None else tree.path_text(modules[first.parent].path),
        input_shapes=shown.input_shapes,
        output_shapes=shown.output_shapes,
        input_dtypes=shown.input_dtypes,
        output_dtypes=shown.output_dtypes,
        parameters=first.config,
        occurrences=[tree.path_text(modules[index].path) for index in members],
        class_path=first.class_path,
        called=bool(calls),
        calls=signatures.total(),
        aliases=[tree.path_text(alias) for index in members for alias in modules[index].aliases],
        tensors=_own_tensors(first, document.tensors),
        call_signatures=calls if len(calls) > 1 else UNSET,
        created_in_forward=True if first.created_in_forward else UNSET,
        cost=cost,
    )


def _signature(inputs: _Types, outputs: _Types, count: int) -> CallSignature:
    return CallSignature(
        input_shapes=[units.shape(shape) for shape, _ in inputs],
        output_shapes=[units.shape(shape) for shape, _ in outputs],
        input_dtypes=[dtype for _, dtype in inputs],
        output_dtypes=[dtype for _, dtype in outputs],
        count=count,
    )


def _own_tensors(module: Module, tensors: list[Tensor]) -> dict[str, OwnTensor]:
    own = {name: tensors[index] for name, index in module.tensors.items()}
    return {
        name: OwnTensor(units.shape(tensor.type.shape), tensor.type.dtype, tensor.role)
        for name, tensor in own.items()
    }
