"""Unique ops: executions are equal if op, attributes and tensor types are; each with the modules that executed it."""

from __future__ import annotations

import re
from collections import defaultdict

from assay import units
from assay.analysis.uniques.canonical import canonical
from assay.analysis.uniques.entries import InputType, Occurrence, OpFigures, OutputType, TensorTypes, UniqueOp
from assay.analysis.uniques.modules import UniqueModules
from assay.document import tree
from assay.document.cost import KindCost
from assay.document.document import Document
from assay.document.rows import OpKind

_Key = tuple[object, ...]

_illegal = re.compile(r"[^0-9A-Za-z_]")


def unique_ops(document: Document, modules: UniqueModules) -> list[UniqueOp]:
    """The unique ops of `document` in order of first execution; every execution belongs to exactly one entry."""
    group_of = _groups(document.kinds)
    executions: dict[int, list[int]] = {}
    for index, op in enumerate(document.ops):
        executions.setdefault(group_of[op.kind], []).append(index)
    occurrences = _occurrences(document, modules)
    return [
        _entry(document, f"op_{number:03d}", members, occurrences)
        for number, members in enumerate(executions.values())
    ]


def _groups(kinds: list[OpKind]) -> list[int]:
    """For each kind, the index of the first kind equal to it."""
    first: dict[_Key, int] = {}
    return [first.setdefault(_key(kind), index) for index, kind in enumerate(kinds)]


def _key(kind: OpKind) -> _Key:
    """The values that must match for two kinds to be equal; roles, strides and aliasing deliberately do not count."""
    inputs = tuple((operand.name, operand.type.shape, operand.type.dtype) for operand in kind.inputs)
    outputs = tuple((operand.type.shape, operand.type.dtype) for operand in kind.outputs)
    return kind.target, canonical(kind.attributes), inputs, outputs


def _occurrences(document: Document, modules: UniqueModules) -> list[Occurrence]:
    """For each execution, in order, the module that ran it and its node name."""
    paths = [tree.path_text(module.path) for module in document.modules]
    bases = [_base(kind.target) for kind in document.kinds]
    names = _Names()
    result = []
    for op in document.ops:
        module = document.module_of(op)
        result.append(Occurrence(modules.id_of[module], names.next_for(bases[op.kind]), paths[module]))
    return result


def _base(target: str) -> str:
    """The op's name without namespace and overload: `_base("aten.conv2d.default") == "conv2d"`."""
    parts = target.split(".")
    return _illegal.sub("_", parts[1] if len(parts) > 1 else target)


class _Names:
    """Generates node names that are unique in a pass: `conv2d`, `conv2d_1`, `conv2d_2`."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: defaultdict[str, int] = defaultdict(int)

    def next_for(self, base: str) -> str:
        """The next free name for `base`."""
        while True:
            number = self._next[base]
            self._next[base] = number + 1
            name = f"{base}_{number}" if number else base
            if name not in self._used:
                self._used.add(name)
                return name


def _entry(document: Document, id: str, members: list[int], occurrences: list[Occurrence]) -> UniqueOp:
    first = document.ops[members[0]]
    kind = document.kinds[first.kind]
    source = occurrences[members[0]]
    return UniqueOp(
        id=id,
        op_name=kind.name,
        source_module_id=source.source_module_id,
        source_module_class=document.modules[document.module_of(first)].class_name,
        attributes=kind.attributes,
        tensor_types=_tensor_types(kind),
        occurrences=[occurrences[index] for index in members],
        target=kind.target,
        count=len(members),
        cost=None if document.cost is None else _figures(document.cost.kinds[first.kind]),
    )


def _figures(cost: KindCost) -> OpFigures:
    return OpFigures(
        macs=cost.macs,
        matrix_flops=cost.matrix_flops,
        pointwise_flops=cost.pointwise_flops,
        needed_flops=cost.needed_flops,
        bytes=cost.bytes,
        category=cost.category,
    )


def _tensor_types(kind: OpKind) -> TensorTypes:
    inputs = [InputType(item.name, units.shape(item.type.shape), item.type.dtype) for item in kind.inputs]
    outputs = [OutputType(units.shape(item.type.shape), item.type.dtype) for item in kind.outputs]
    return TensorTypes(outputs[0] if outputs else None, inputs, outputs)
