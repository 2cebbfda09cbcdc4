"""Ops for the page: kinds with cost, time and bottleneck, and every execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from assay import units
from assay.analysis.achieved import Achieved
from assay.document import tree
from assay.document.assessments import OpAssessment
from assay.document.cost import KindCost
from assay.document.provenance import Counted, Provenance
from assay.document.rows import OpKind
from assay.views.html.columns import LARGE, numbers, page_columns, words
from assay.views.html.page import (
    AnyBlock,
    NotesBlock,
    PageColumn,
    PageTable,
    PageView,
    SectionRef,
    TableBlock,
    Unit,
)
from assay.views.html.subject import Subject
from assay.views.tables import percent, printable
from assay.views.text.figures import bottleneck

KINDS, EXECUTIONS = "kinds", "executions"


def ops_view(subject: Subject) -> PageView:
    """Kinds of op, then every execution."""
    if not subject.document.ops:
        return PageView("ops", "Ops", [], _no_ops(subject))
    executions: AnyBlock = TableBlock(id=EXECUTIONS, title="Executions, in order", table=SectionRef(EXECUTIONS))
    if not lists_executions(subject):
        count = f"{len(subject.document.ops):,}"
        executions = NotesBlock(title="Executions", lines=[f"`assay report --full` lists all {count} executions"])
    return PageView(
        "ops",
        "Ops",
        [
            TableBlock(id=KINDS, title="Kinds of op", caption=_caption(subject), table=SectionRef(KINDS)),
            executions,
        ],
    )


def lists_executions(subject: Subject) -> bool:
    """Whether the page has a row for every executed op; of very many only if it is full."""
    return bool(subject.document.ops) and (subject.full or len(subject.document.ops) < LARGE)


def _no_ops(subject: Subject) -> str:
    failure = subject.document.failure
    if failure is not None:
        return f"No op was recorded before the pass stopped: {failure.error}"
    return f"No pass was recorded. Run `assay analyze {subject.model}` with a model that can run."


def _caption(subject: Subject) -> str:
    document = subject.document
    categories = subject.cost.categories
    total = subject.cost.forward.flops
    start = f"{len(document.ops):,} executions of {len(document.kinds):,} kinds"
    if not total or not categories:
        return f"{start}."
    name = next(iter(categories))
    return f"{percent((categories[name].flops or 0) / total)} of the FLOPs are in {name}: {start}."


def kinds_table(subject: Subject) -> PageTable:
    """One row per kind of op, longest time or most FLOPs first."""
    document, cost = subject.document, subject.cost
    counts = Counter(op.kind for op in document.ops)
    timed = {row.kind: row for row in subject.rows}
    order = sorted(counts, key=lambda kind: _order(timed.get(kind), cost.kinds[kind], counts[kind]))
    kinds, costs = [document.kinds[kind] for kind in order], [cost.kinds[kind] for kind in order]
    counted = Counted(cost.convention)
    profile = document.profile
    energy = profile.energy if profile is not None else None
    energies = energy.kinds if energy is not None and energy.whole.value is not None else []
    assessment = document.assessment
    times = profile.columns.get("kinds") or profile.columns.get("kinds.total_s") if profile is not None else None

    def time(key: str, title: str, of: Callable[[Achieved], float | None], unit: Unit, **more: Any) -> PageColumn:
        values = [of(timed[kind]) if kind in timed else None for kind in order]
        return numbers(key, title, values, unit, times, **more)

    columns = [
        *_kind_columns(kinds, costs),
        numbers("count", "count", (counts[kind] for kind in order), "exact"),
        time("total_s", "time", lambda row: row.total_s, "seconds"),
        time("share", "share of ops", lambda row: row.share, "share", bar=True),
        time("each_s", "each", lambda row: row.time_s, "seconds", hidden=True),
        time("low_s", "time, low", lambda row: row.low_s, "seconds", hidden=True),
        time("high_s", "time, high", lambda row: row.high_s, "seconds", hidden=True),
        numbers("flops", "FLOPs", (_times(one.flops, counts[kind]) for one, kind in zip(costs, order, strict=True)),
                "count", counted, bar=not timed),
        numbers("bytes", "bytes", (one.bytes * counts[kind] for one, kind in zip(costs, order, strict=True)),
                "bytes", counted),
        numbers("intensity", "FLOPs per byte", (one.intensity for one in costs), "ratio", counted),
        time("flops_per_s", "FLOP/s", lambda row: row.flops_per_s, "count"),
        time("bytes_per_s", "bytes/s", lambda row: row.bytes_per_s, "bytes", hidden=True),
        time("of_limit", "of limit", _of_limit, "share"),
        time("recoverable_s", "above limit", lambda row: row.recoverable_s, "seconds"),
        words("bound", "bottleneck", (bottleneck(timed[kind].bound) if kind in timed else None for kind in order),
              state="bound"),
        numbers("energy_j", "energy", (_energy(energies, kind) for kind in order), "joules", _energy_how(energies)),
        *_assessment_columns([assessment.kinds[kind] for kind in order] if assessment is not None else []),
        words("unknown", "unknown", (one.unknown for one in costs), hidden=True),
    ]  # fmt: skip
    return PageTable(rows=len(order), columns=page_columns(columns, len(order), full=subject.full))


def _assessment_columns(assessments: Sequence[OpAssessment]) -> list[PageColumn]:
    """What the weights of the ops allow; no columns if they were not assessed."""
    if not assessments:
        return []
    how = Counted("mean over the weights of its ops, weighted by their elements")
    return [
        numbers(
            "prunable", "pruning potential", (one.pruning_potential for one in assessments), "share", how, hidden=True
        ),
        words(
            "sensitivity",
            "quantization sensitivity",
            (one.quantization_sensitivity or None for one in assessments),
            hidden=True,
        ),
        words("recommendation", "recommendation", (_recommendation(one) for one in assessments)),
    ]


def _recommendation(assessment: OpAssessment) -> str | None:
    return assessment.recommendation or (f"unknown: {assessment.unknown}" if assessment.unknown else None)


def executions_table(subject: Subject) -> PageTable:
    """One row per executed op, in order."""
    document, cost = subject.document, subject.cost
    kinds, costs = [document.kinds[op.kind] for op in document.ops], [cost.kinds[op.kind] for op in document.ops]
    paths = [printable(tree.path_text(module.path)) for module in document.modules] or [tree.ROOT]
    profile = document.profile
    seconds = profile.ops if profile is not None else []
    how = profile.columns.get("ops") if profile is not None else None
    known = [value for value in seconds if value is not None]
    whole = sum(known)
    columns = [
        numbers("number", "number", range(1, len(kinds) + 1), "exact"),
        words("module", "module", (paths[document.module_of(op)] for op in document.ops), link="module"),
        *_kind_columns(kinds, costs),
        numbers("time_s", "time", seconds, "seconds", how),
        numbers("share", "share of ops", (None if one is None or not whole else one / whole for one in seconds),
                "share", how, bar=True),
        numbers("flops", "FLOPs", (one.flops for one in costs), "count", Counted(cost.convention)),
        numbers("bytes", "bytes", (one.bytes for one in costs), "bytes", Counted(cost.convention)),
    ]  # fmt: skip
    return PageTable(rows=len(kinds), columns=page_columns(columns, len(kinds), full=subject.full))


def _kind_columns(kinds: Sequence[OpKind], costs: Sequence[KindCost]) -> list[PageColumn]:
    return [
        words("name", "op", (units.op(kind.name) for kind in kinds), link="op"),
        words("type", "type", (one.category for one in costs)),
        words("inputs", "inputs", (units.shapes(one.type.shape for one in kind.inputs) or None for kind in kinds)),
        words("outputs", "outputs", (units.shapes(one.type.shape for one in kind.outputs) or None for kind in kinds)),
        words("dtype", "dtype", (_dtypes(kind) for kind in kinds), hidden=True),
        words("attributes", "attributes", (_attributes(kind) for kind in kinds), hidden=True),
    ]


def _dtypes(kind: OpKind) -> str | None:
    operands = [*kind.inputs, *kind.outputs]
    return ", ".join(dict.fromkeys(one.type.dtype for one in operands)) or None


def _attributes(kind: OpKind) -> str | None:
    return printable(" ".join(f"{name}={value}" for name, value in kind.attributes.items())) or None


def _order(row: Achieved | None, cost: KindCost, count: int) -> tuple[float, float]:
    return (row.order if row is not None else 0.0), -float((cost.flops or 0) * count)


def _of_limit(row: Achieved) -> float | None:
    """The shortest possible time divided by the measured one."""
    return None if row.roof_s is None or not row.time_s else row.roof_s / row.time_s


def _times(value: int | None, count: int) -> int | None:
    return None if value is None else value * count


def _energy(energies: Sequence[Any], kind: int) -> float | None:
    row = energies[kind] if kind < len(energies) else None
    return None if row is None or row.each.value is None else row.each.value * row.count


def _energy_how(energies: Sequence[Any]) -> Provenance | None:
    return next((row.each.how for row in energies if row is not None and row.each.value is not None), None)
