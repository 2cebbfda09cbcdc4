"""Ops whose results nothing uses: no op reads them, Python does not, and they are freed before the pass ends."""

from __future__ import annotations

from assay.analysis.cost.categories import RANDOM
from assay.analysis.flow import is_view
from assay.document.cost import KindCost
from assay.document.document import Document
from assay.document.rows import Op, OpKind

_UNINITIALISED = ("aten.empty", "aten.new_empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty_strided")


def dead_ops(document: Document, costs: list[KindCost]) -> list[int]:
    """The ops of the forward pass that could be left out without changing its result or any state.

    A result that outlives the pass is used: the model returns it or keeps it. Ops that write to memory from before
    the pass, advance a random generator or return no tensor are used too. None are reported if a kernel that was not
    recorded took part in the pass, because it may have read anything.
    """
    storages, kinds = document.storages, document.kinds
    if not any(op.writes for op in document.ops) or _has_unseen_kernels(document):
        return []
    used = {index for index, row in enumerate(storages) if row.role != "activation" or row.died is None}
    read_by_python = {read.op for read in document.host_reads}
    dead = []
    for index in range(len(document.ops) - 1, -1, -1):
        op = document.ops[index]
        view = is_view(kinds[op.kind])
        if index in read_by_python or (not view and _has_effect(kinds[op.kind], costs[op.kind], op, used)):
            used.update(op.reads)
        elif not view and any(storages[each].bytes for each in op.writes):
            dead.append(index)
    return dead[::-1]


def _has_effect(kind: OpKind, cost: KindCost, op: Op, used: set[int]) -> bool:
    return not kind.outputs or not op.writes or cost.category == RANDOM or not used.isdisjoint(op.writes)


def _has_unseen_kernels(document: Document) -> bool:
    """Whether an op reads memory that was allocated without values and that no recorded op has written."""
    blank: set[int] = set()
    for op in document.ops:
        kind = document.kinds[op.kind]
        if kind.target.rpartition(".")[0] in _UNINITIALISED:
            blank.update(op.writes)
        elif not is_view(kind):
            blank.difference_update(op.writes)
            if not blank.isdisjoint(op.reads):
                return True
    return any(document.storages[each].died is None for each in blank)
