"""The seven checks of an entry, each with a short verdict and, unless it is `yes`, the reason."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from assay import observe
from assay.document.document import Document
from zoo_models import oracle
from zoo_models.registry import Entry, Inputs
from zoo_models.snapshot import changes, snapshot
from zoo_models.verbs import raw_errors

YES, NO, NONE = "yes", "no", "–"
SAME, TO_THE_END, FAILED = "same", "to the end", "failed"
COVERAGE = 0.99

Verdict = tuple[str, str]


@dataclass
class Evidence:
    """The data for the checks of an entry: the document, the changes to the model, and the entry to build again."""

    entry: Entry
    document: Document
    paths: set[str]
    changed: list[str]
    targets: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.targets = targets(self.document)


def targets(document: Document) -> list[str]:
    """The dispatcher's names of the ops in the document, in order."""
    return [document.kinds[op.kind].target for op in document.ops]


def arguments(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs as `(args, kwargs)`, which is unambiguous."""
    return ((), inputs) if isinstance(inputs, dict) else (inputs, {})


def gather(entry: Entry) -> Evidence:
    """Record the entry once, and collect the changes to the model."""
    model, inputs = oracle.fresh(entry)
    paths = {path for path, _ in model.named_modules()}
    before = snapshot(model)
    document = observe(model, arguments(inputs), train=entry.trains, as_is=entry.keeps_modes)
    return Evidence(entry, document, paths, changes(before, snapshot(model)))


def completes(evidence: Evidence) -> Verdict:
    """(a) The recording completes, or reports the failure if the model is expected to fail."""
    failure = evidence.document.run.failure
    if evidence.entry.fails:
        return (YES, "") if failure else (NO, "the failure was not noticed")
    return (YES, "") if failure is None else (NO, f"{failure.module} ({failure.module_class}): {failure.error}")


def counts(evidence: Evidence) -> Verdict:
    """(b) The list of ops equals that of a bare dispatch mode."""
    if evidence.entry.fails:
        return NONE, "fails by design"
    try:
        expected = _expected(evidence.entry)
    except Exception as error:  # noqa: BLE001  a bare mode does not support every model; the entry then has no oracle
        return NONE, f"no oracle: {oracle.line(error)}"
    return (YES, "") if evidence.targets == expected else (NO, difference(evidence.targets, expected))


def _expected(entry: Entry) -> list[str]:
    model, inputs = oracle.awake(entry)
    try:
        return oracle.operations(model, inputs)
    except RuntimeError as error:
        if "grad" not in str(error):
            raise
    model, inputs = oracle.awake(entry)
    with torch.enable_grad():
        return oracle.operations_with_autograd(model, inputs)


def difference(found: list[str], expected: list[str]) -> str:
    """The first difference between two lists of ops."""
    pairs = enumerate(zip(found, expected, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(found), len(expected)))
    here, there = (names[at] if at < len(names) else "the end" for names in (found, expected))
    return f"{len(found)} ops instead of {len(expected)}; op {at} is {here} instead of {there}"


def modules(evidence: Evidence) -> Verdict:
    """(c) Every module is recorded, and the counts of the unique entries add up to all of them."""
    found = {module.path for module in evidence.document.modules if not module.created_in_forward}
    if found != evidence.paths:
        missing, extra = sorted(evidence.paths - found), sorted(found - evidence.paths)
        return NO, f"missing {missing[:3]}, extra {extra[:3]}"
    if importlib.util.find_spec("assay.analysis.uniques") is None:
        return YES, "uniques not there yet"
    return _uniques(evidence.document)


def _uniques(document: Document) -> Verdict:
    from assay.analysis.uniques import unique_modules, unique_ops

    unique = unique_modules(document)
    members = sum(len(entry.occurrences) for entry in unique.entries)
    ops = sum(entry.count for entry in unique_ops(document, unique))
    if members != len(document.modules) or ops != len(document.ops):
        return NO, f"{members} of {len(document.modules)} modules, {ops} of {len(document.ops)} ops in entries"
    return YES, ""


def unchanged(evidence: Evidence) -> Verdict:
    """(d) The model is bit for bit as it was."""
    return (NO, ", ".join(evidence.changed[:4])) if evidence.changed else (YES, "")


def costs(evidence: Evidence) -> Verdict:
    """(e) Nearly every op has a cost, and sums over modules equal sums over ops."""
    if importlib.util.find_spec("assay.analysis.cost") is None:
        return NONE, "no costs yet"
    from assay.analysis.cost import cost_of

    document = evidence.document
    by_kind = [cost_of(kind) for kind in document.kinds]
    by_op = [by_kind[op.kind].flops for op in document.ops]
    by_module = [0] * len(document.modules)
    for op, flops in zip(document.ops, by_op, strict=True):
        by_module[document.calls[op.call].module] += flops or 0
    for index in range(len(document.modules) - 1, 0, -1):
        parent = document.modules[index].parent
        by_module[parent if parent is not None else 0] += by_module[index]
    known = sum(flops is not None for flops in by_op)
    unknown = sorted(
        {document.kinds[op.kind].target for op, flops in zip(document.ops, by_op, strict=True) if flops is None}
    )
    if by_op and by_module[0] != sum(flops or 0 for flops in by_op):
        return NO, f"modules add up to {by_module[0]}, operations to {sum(flops or 0 for flops in by_op)}"
    covered = known >= COVERAGE * len(by_op)
    return (YES, "") if covered else (NO, f"{known} of {len(by_op)} ops; unknown: {', '.join(unknown)}")


def without_data(evidence: Evidence) -> Verdict:
    """(f) A pass without data records the same ops."""
    if evidence.entry.fails:
        return NONE, "fails by design"
    model, inputs = oracle.fresh(evidence.entry)
    entry = evidence.entry
    document = observe(model, arguments(inputs), mode="meta", train=entry.trains, as_is=entry.keeps_modes)
    if document.run.failure is not None:
        return FAILED, f"{document.run.failure.module}: {document.run.failure.error}"
    found = targets(document)
    if found == evidence.targets:
        return SAME, f"{document.run.mode}"
    return TO_THE_END, f"{document.run.mode}: {difference(found, evidence.targets)}"


def verbs(evidence: Evidence) -> Verdict:
    """(g) Every verb returns a result or raises an error of Assay, with and without data."""
    model, inputs = oracle.fresh(evidence.entry)
    raw = raw_errors(model, arguments(inputs), train=evidence.entry.trains, as_is=evidence.entry.keeps_modes)
    return (NO, "; ".join(raw[:3])) if raw else (YES, "")


CHECKS: dict[str, Callable[[Evidence], Verdict]] = {
    "captured": completes,
    "ops": counts,
    "modules": modules,
    "unchanged": unchanged,
    "cost": costs,
    "no data": without_data,
    "verbs": verbs,
}


def check(entry: Entry) -> dict[str, Verdict]:
    """The verdicts of all checks on an entry; a check that raises counts as failed."""
    try:
        evidence = gather(entry)
    except Exception as error:  # noqa: BLE001  any error of the recording is reported
        return {name: (NO if name == "captured" else NONE, oracle.line(error)) for name in CHECKS}
    return {name: _checked(function, evidence) for name, function in CHECKS.items()}


def _checked(function: Callable[[Evidence], Verdict], evidence: Evidence) -> Verdict:
    try:
        return function(evidence)
    except Exception as error:  # noqa: BLE001  see above
        return (FAILED if function is without_data else NO), oracle.line(error)
