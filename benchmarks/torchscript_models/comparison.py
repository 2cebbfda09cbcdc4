"""What a document read from a file and that of the live model have in common."""

from __future__ import annotations

from collections.abc import Callable

from assay.analysis.memory import memory_of
from assay.document.cost import CostTotals
from assay.document.document import Document

YES, NEAR, NO, NONE = "yes", "≈", "no", "–"
GOOD = {YES, NEAR, NONE}
CHECKS = {
    "ran": True,
    "flops": True,
    "matrix": True,
    "counter": True,
    "memory": False,
    "peak": True,
    "modules": True,
    "ops": False,
    "inferred": False,
}
"""The checks in the order of their columns, and whether the bench fails if one of them does.

`memory` is compared with the live model; for `peak`, torch.jit running the same file will do, too: TorchScript frees
a value after its last use, and Python's local variables often live longer.
"""
TOLERANCE = 0.1
"""Largest relative difference of the peak memory."""
NEARLY = 0.01
"""Largest relative difference of all FLOPs: a trace records arithmetic on sizes, but no results without use."""

Verdict = tuple[str, str]
Check = Callable[[Document, Document], Verdict]
Shapes = tuple[tuple[int, ...], ...]


def _equal(found: object, expected: object) -> Verdict:
    return (YES, "") if found == expected else (NO, f"{_shown(found)} instead of {_shown(expected)}")


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def best(check: Check, found: Document, live: list[Document]) -> Verdict:
    """The verdict for the live pass that agrees best; the first one if none does."""
    verdicts = [check(found, document) for document in live]
    return min(verdicts, key=lambda verdict: (YES, NONE, NEAR, NO).index(verdict[0]))


def flops(found: Document, live: Document) -> Verdict:
    """All FLOPs of the pass are equal, or nearly so."""
    here, there = _forward(found).flops, _forward(live).flops
    verdict, detail = _equal(here, there)
    near = here is not None and there is not None and abs(here - there) <= NEARLY * there
    return (NEAR if verdict == NO and near else verdict), detail


def matrix(found: Document, live: Document) -> Verdict:
    """The FLOPs of matrix products and convolutions are equal."""
    return _equal(_forward(found).matrix_flops, _forward(live).matrix_flops)


def counter(found: Document, counted: int | None) -> Verdict:
    """The same, compared with torch's own counter; it does not apply if that misses products of this model."""
    return (NONE, "") if counted is None else _equal(_forward(found).matrix_flops, counted)


def memory(found: Document, live: Document) -> Verdict:
    """The predicted peaks differ by at most the tolerance."""
    peaks = [memory_of(document).inference for document in (found, live)]
    sizes = [None if peak is None else peak.total.value for peak in peaks]
    if None in sizes:
        return _equal(sizes[0], sizes[1])
    close = abs(sizes[0] - sizes[1]) <= TOLERANCE * sizes[1]
    return (YES, "") if close else (NO, f"{sizes[0]:,.0f} bytes instead of {sizes[1]:,.0f}")


def modules(found: Document, live: Document) -> Verdict:
    """The same paths exist, and each module returns the same shapes in the same order.

    They agree nearly if a call returns more or fewer tensors: in a trace, it returns those that are used outside.
    """
    here, there = _paths(found), _paths(live)
    if here != there:
        return NO, f"missing {sorted(there - here)[:3]}, extra {sorted(here - there)[:3]}"
    names = {alias: module.path for module in live.modules for alias in module.aliases}
    outputs, expected = _outputs(found, names), _outputs(live, names)
    wrong = [path for path in outputs | expected if outputs.get(path) != expected.get(path)]
    if not wrong:
        return YES, ""
    path = next((path for path in wrong if not _overlap(outputs.get(path), expected.get(path))), wrong[0])
    near = _overlap(outputs.get(path), expected.get(path))
    return (
        NEAR if near else NO
    ), f"{len(wrong)} differ: {path or '(root)'} returns {outputs.get(path)} instead of {expected.get(path)}"


def ops(found: Document, live: Document) -> Verdict:
    """The same ops with results of the same shapes, in the same order."""
    here, there = _ops(found), _ops(live)
    if here == there:
        return YES, ""
    at = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), min(len(here), len(there)))
    names = [rows[at][0] if at < len(rows) else "the end" for rows in (here, there)]
    return NO, f"{len(here)} ops instead of {len(there)}; op {at} is {names[0]} instead of {names[1]}"


def inferred(found: Document, live: Document) -> Verdict:
    """The pass on inferred inputs completes, and they have the shapes and dtypes of the live model's.

    They agree nearly if only sizes differ, which the file may leave open.
    """
    if found.run.failure is not None:
        return NO, failure(found)
    here, there = ([(each.type.shape, each.type.dtype) for each in document.run.inputs] for document in (found, live))
    verdict, detail = _equal(here, there)
    same = [(len(shape), dtype) for shape, dtype in here] == [(len(shape), dtype) for shape, dtype in there]
    return (NEAR if verdict == NO and same else verdict), detail


def failure(document: Document) -> str:
    """Where and why the pass stopped; empty if it completed."""
    stopped = document.run.failure
    if stopped is None:
        return ""
    return f"{stopped.module}{f' ({stopped.op})' if stopped.op else ''}: {stopped.error}"[:300]


def _forward(document: Document) -> CostTotals:
    assert document.cost is not None
    return document.cost.forward


def _paths(document: Document) -> set[str]:
    kept = (module for module in document.modules if not module.created_in_forward)
    return {path for module in kept for path in (module.path, *module.aliases)}


def _outputs(document: Document, names: dict[str, str]) -> dict[str, list[Shapes]]:
    """The shapes that each module returned, call by call; `names` maps aliases to paths."""
    results: dict[str, list[Shapes]] = {}
    for call in document.calls:
        module = document.modules[call.module]
        if not module.created_in_forward:
            path = names.get(module.path, module.path)
            results.setdefault(path, []).append(tuple(each.shape for each in call.outputs))
    return results


def _overlap(here: list[Shapes] | None, there: list[Shapes] | None) -> bool:
    """Whether there are as many calls, and each returns tensors of a shape of the other, or none."""
    if here is None or there is None or len(here) != len(there):
        return False
    return all(not a or not b or set(a) & set(b) for a, b in zip(here, there, strict=True))


def _ops(document: Document) -> list[tuple[str, Shapes]]:
    kinds = (document.kinds[op.kind] for op in document.ops)
    return [(kind.target, tuple(each.type.shape for each in kind.outputs)) for kind in kinds]


COMPARED: dict[str, Check] = {"flops": flops, "matrix": matrix, "memory": memory, "modules": modules, "ops": ops}
"""The checks that compare a document with one of the live model."""
