"""The work of an op on nested tensors: the sum of the same op on each component, as a batch of one."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from assay.analysis.cost.registry import WorkRule
from assay.analysis.cost.work import Work
from assay.document.rows import Operand, OpKind


def work_of(rule: WorkRule, kind: OpKind) -> Work:
    """The work of `kind` by `rule`, component by component if its operands are nested tensors of equal length."""
    nested = [one.type.components for one in (*kind.inputs, *kind.outputs) if one.type.components is not None]
    if not nested or len(set(map(len, nested))) > 1:
        return rule(kind)
    total = Work()
    for shapes, count in Counter(zip(*nested, strict=True)).items():
        total += rule(_component(kind, list(shapes), len(nested[0]))) * count
    return total


def _component(kind: OpKind, shapes: list[tuple[int, ...]], batch: int) -> OpKind:
    """The op on one component; `shapes` are those of the component in each nested operand, in order."""
    rank = 1 + len(shapes[0])

    def part(one: Operand) -> Operand:
        if one.type.components is not None:
            return replace(one, type=replace(one.type, shape=(1, *shapes.pop(0)), components=None))
        if len(one.type.shape) == rank > 2 and one.type.shape[0] == batch:
            return replace(one, type=replace(one.type, shape=(1, *one.type.shape[1:])))
        return one

    inputs = tuple(map(part, kind.inputs))
    return replace(kind, inputs=inputs, outputs=tuple(map(part, kind.outputs)))
