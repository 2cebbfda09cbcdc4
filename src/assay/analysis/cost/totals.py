"""Cost totals of a document: per kind of op, per call, per module (own and total), per category, and for the model.

Cost is a function of the kind, so it is computed once per kind and multiplied. Sums are kept as plain lists of
integers while adding and become `CostTotals` at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeVar

import msgspec

from assay.analysis.cost import cost_of
from assay.document.cost import Cost, CostTotals, KindCost, ModuleCost, UnknownOp
from assay.document.document import Document
from assay.document.provenance import Counted
from assay.document.rows import Op, OpKind
from assay.document.tree import with_ancestors

_ZERO = (0,) * 9

UNKNOWN = CostTotals(unknown_ops=1)
"""The total if no ops were recorded although some may run: no complete pass, TorchScript, or no call."""

Label = TypeVar("Label", bound=Hashable)


def with_cost(document: Document) -> Document:
    """The document with its cost added."""
    return msgspec.structs.replace(document, cost=add_up(document))


_COUNTED = ("kinds", "modules", "outside", "forward", "least", "backward", "categories")


def add_up(document: Document) -> Cost:
    """The cost of all ops recorded in the document."""
    kinds = [cost_of(kind) for kind in document.kinds]
    columns = [_columns(kind) for kind in kinds]
    outside, calls = _by_call(document.ops, columns, len(document.calls))
    unknown = _unknown(document.ops, document.kinds, kinds)
    backward, backward_own = None, None
    if document.training is not None:
        back_kinds = [cost_of(kind) for kind in document.training.kinds]
        back_ops = [op for op in document.training.ops if op.phase == "backward"]
        back_outside, back_calls = _by_call(back_ops, [_columns(kind) for kind in back_kinds], len(document.calls))
        backward = _sum([back_outside, *back_calls])
        backward_own = _own(document, back_calls)
        unknown.extend(_unknown(back_ops, document.training.kinds, back_kinds))
    return Cost(
        kinds=kinds,
        modules=_modules(document, calls, backward_own),
        outside=CostTotals(*outside) if document.recorded else UNKNOWN,
        forward=_sum([outside, *calls]) if document.ops or not _lacks_ops(document) else UNKNOWN,
        least=_least(document.ops, columns) if document.complete else None,
        backward=backward,
        categories=_categories(document, kinds, columns),
        unknown=unknown,
        partial=document.partial,
        columns=dict.fromkeys(_COUNTED, Counted("formulas of the shapes and attributes of each op")),
    )


def _by_call(ops: Sequence[Op], columns: list[tuple[int, ...]], count: int) -> tuple[list[int], list[list[int]]]:
    """The sums over the ops outside any call, and over each call's own ops."""
    outside = list(_ZERO)
    calls = [list(_ZERO) for _ in range(count)]
    for (call, kind), times in Counter((op.call, op.kind) for op in ops).items():
        _add(outside if call < 0 else calls[call], columns[kind], times)
    return outside, calls


def _least(ops: Sequence[Op], columns: list[tuple[int, ...]]) -> CostTotals | None:
    """The sum over the ops whose sizes are not assumed; None if all sizes are known."""
    certain = Counter(op.kind for op in ops if not op.assumed)
    if certain.total() == len(ops):
        return None
    sums = list(_ZERO)
    for kind, count in certain.items():
        _add(sums, columns[kind], count)
    return CostTotals(*sums)


def per_call(document: Document, cost: Cost) -> list[CostTotals]:
    """The cost of each call of the forward pass, without the calls inside it; as `per_call_total`."""
    own = _call_sums(document, cost)
    return _if_recorded(document, own, _inclusive(document, own))


def per_call_total(document: Document, cost: Cost) -> list[CostTotals]:
    """The cost of each call of the forward pass, including the calls inside it.

    `UNKNOWN` for a call without recorded ops of a module whose ops may be missing.
    """
    inclusive = _inclusive(document, _call_sums(document, cost))
    return _if_recorded(document, inclusive, inclusive)


def _call_sums(document: Document, cost: Cost) -> list[list[int]]:
    """The sums over each call's own ops."""
    return _by_call(document.ops, [_columns(kind) for kind in cost.kinds], len(document.calls))[1]


def _if_recorded(document: Document, sums: list[list[int]], inclusive: list[list[int]]) -> list[CostTotals]:
    """The `sums` of each call as totals; `UNKNOWN` if no op of it was recorded although some may run."""
    hidden = _possibly_unrecorded(document)
    return [
        UNKNOWN if call.module in hidden and not total[0] else CostTotals(*values)
        for call, values, total in zip(document.calls, sums, inclusive, strict=True)
    ]


def inside(document: Document, cost: Cost, labels: Sequence[Collection[Label]]) -> dict[Label, CostTotals]:
    """For each label, the total cost of the calls of the modules that have it; nested calls count once.

    `labels` are the labels of each module, in the order of `document.modules`.
    """
    inclusive = _inclusive(document, _call_sums(document, cost))
    return {label: CostTotals(*values) for label, values in _labelled(document, inclusive, labels).items()}


def module_totals(document: Document, cost: Cost) -> list[CostTotals]:
    """The total cost of each module's calls; for a container that is never called, of its submodules' calls.

    `UNKNOWN` for a module of which nothing was called.
    """
    called = {call.module for call in document.calls}
    containers: list[tuple[int, ...]] = []
    for index, module in enumerate(document.modules):
        above = () if module.parent is None else containers[module.parent]
        containers.append(above if index in called else (*above, index))
    contents = inside(document, cost, containers)
    return [
        module.total if index in called else contents.get(index, UNKNOWN) for index, module in enumerate(cost.modules)
    ]


def backward_outside(cost: Cost) -> CostTotals | None:
    """The cost of the backward pass outside any module; None if it was not recorded."""
    if cost.backward is None:
        return None
    inner = summed(module.backward for module in cost.modules if module.backward is not None)
    pairs = zip(msgspec.structs.astuple(cost.backward), msgspec.structs.astuple(inner), strict=True)
    return CostTotals(*(whole - part for whole, part in pairs))


def times(cost: KindCost, count: int) -> CostTotals:
    """The cost of `count` executions of one kind."""
    return CostTotals(*(value * count for value in _columns(cost)))


def summed(totals: Iterable[CostTotals]) -> CostTotals:
    """The sum of several totals."""
    return _sum([_ZERO, *map(msgspec.structs.astuple, totals)])


def summed_recorded(totals: Iterable[CostTotals]) -> CostTotals:
    """The sum of the recorded totals; `UNKNOWN` if none was recorded."""
    recorded = [sums for sums in totals if sums.recorded]
    return summed(recorded) if recorded else UNKNOWN


def _columns(cost: KindCost) -> tuple[int, ...]:
    """The cost of one execution, in the order of the fields of `CostTotals`."""
    known = cost.flops is not None
    return (
        1,
        0 if known else 1,
        cost.macs or 0,
        cost.matrix_flops or 0,
        cost.pointwise_flops or 0,
        cost.needed_flops or 0,
        cost.read_parameters,
        cost.read_activations,
        cost.written,
    )


def _add(into: list[int], columns: Iterable[int], times: int) -> None:
    for position, value in enumerate(columns):
        into[position] += value * times


def _sum(rows: Iterable[Iterable[int]]) -> CostTotals:
    return CostTotals(*(sum(column) for column in zip(*rows, strict=True)))


def _own(document: Document, calls: list[list[int]]) -> list[list[int]]:
    """Each module's own cost, summed over its calls."""
    own = [list(_ZERO) for _ in document.modules]
    for call, values in zip(document.calls, calls, strict=True):
        _add(own[call.module], values, 1)
    return own


def _modules(document: Document, calls: list[list[int]], backward: list[list[int]] | None) -> list[ModuleCost]:
    """Own and total cost of every module; a call nested inside a call of the same module counts once."""
    total = _labelled(document, _inclusive(document, calls), [(index,) for index in range(len(document.modules))])
    hidden = _possibly_unrecorded(document)
    return [
        ModuleCost(
            CostTotals(*own),
            UNKNOWN if index in hidden and not total.get(index, _ZERO)[0] else CostTotals(*total.get(index, _ZERO)),
            CostTotals(*backward[index]) if backward else None,
        )
        for index, own in enumerate(_own(document, calls))
    ]


def _possibly_unrecorded(document: Document) -> set[int]:
    """Modules whose ops may be missing: all unless a pass completed, else those that were not called."""
    if _lacks_ops(document):
        return set(range(len(document.modules)))
    called = with_ancestors(document.modules, (call.module for call in document.calls))
    return set(range(len(document.modules))) - called


def _lacks_ops(document: Document) -> bool:
    """Whether ops of the model were not recorded: there was no pass, or it stopped early."""
    return not (document.recorded and document.complete)


def _inclusive(document: Document, calls: list[list[int]]) -> list[list[int]]:
    """Each call's cost including the calls inside it, which come later in the list."""
    inclusive = [list(values) for values in calls]
    for index in range(len(calls) - 1, -1, -1):
        parent = document.calls[index].parent
        if parent is not None:
            _add(inclusive[parent], inclusive[index], 1)
    return inclusive


def _labelled(
    document: Document, inclusive: Sequence[Sequence[int]], labels: Sequence[Collection[Label]]
) -> dict[Label, list[int]]:
    """For each label, the sums over the outermost calls of modules that have it."""
    sums: dict[Label, list[int]] = {}
    around: list[frozenset[Label]] = []
    for call, values in zip(document.calls, inclusive, strict=True):
        above: frozenset[Label] = frozenset() if call.parent is None else around[call.parent]
        new = [label for label in labels[call.module] if label not in above]
        around.append(above.union(new) if new else above)
        for label in new:
            _add(sums.setdefault(label, list(_ZERO)), values, 1)
    return sums


def _categories(document: Document, kinds: list[KindCost], columns: list[tuple[int, ...]]) -> dict[str, CostTotals]:
    sums: dict[str, list[int]] = {}
    for kind, times in Counter(op.kind for op in document.ops).items():
        _add(sums.setdefault(kinds[kind].category, list(_ZERO)), columns[kind], times)
    totals = {name: CostTotals(*values) for name, values in sums.items()}
    return dict(sorted(totals.items(), key=lambda item: (-(item[1].flops or 0), -item[1].bytes, item[0])))


def _unknown(ops: Sequence[Op], kinds: Sequence[OpKind], costs: list[KindCost]) -> list[UnknownOp]:
    counts: Counter[tuple[str, str]] = Counter()
    for kind, times in Counter(op.kind for op in ops).items():
        if costs[kind].flops is None:
            counts[kinds[kind].target, costs[kind].unknown] += times
    return [UnknownOp(target, why, times) for (target, why), times in counts.most_common()]
