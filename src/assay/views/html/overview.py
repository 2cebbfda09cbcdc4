"""The first view: the brief as cards, what to do next, what is wrong and what is unknown."""

from __future__ import annotations

from collections.abc import Mapping

from assay.analysis.time_split import time_split
from assay.document.provenance import Counted, Figure
from assay.findings.brief import Brief, BriefFigure
from assay.views.html.columns import provenance
from assay.views.html.findings import finding_item
from assay.views.html.page import PageBrief, PageFigure, Split, UnknownItem
from assay.views.html.subject import Subject
from assay.views.partial import coverage_text, marked_total
from assay.views.tables import printable
from assay.views.text.brief import value_and_range
from assay.views.text.figures import bottleneck

_PARTS = 6
"""Parts of a card's bar, the rest included."""
_OTHER = "other"


def page_brief(subject: Subject) -> PageBrief | None:
    """The brief of the subject; None if it has none."""
    brief = subject.brief
    if brief is None:
        return None
    splits = _splits(subject)
    return PageBrief(
        identity=[printable(one) for one in brief.identity],
        figures=[_card(one, brief, splits) for one in _figures(subject, brief)],
        actions=[finding_item(subject.document, one) for one in brief.actions],
        more_actions=brief.more_actions,
        next_step=brief.next_step,
        tries=brief.tries,
        problems=[finding_item(subject.document, one) for one in brief.problems],
        more_problems=brief.more_problems,
        clean=brief.clean,
        remarks=[f"{one.title.partition(': ')[0]} ({one.code})" for one in brief.remarks],
        unknown=[UnknownItem(one.what, one.why) for one in brief.unknown],
        partial=brief.partial,
    )


def _figures(subject: Subject, brief: Brief) -> list[BriefFigure]:
    """The figures of the brief; the compute of a pass stands beside its time, with its coverage."""
    document, cost = subject.document, subject.cost
    flops = cost.forward.flops
    if not document.ops or flops is None:
        return brief.figures
    text = f"FLOPs per pass; {coverage_text(cost)}"
    compute = BriefFigure("Compute", Figure(flops, Counted(cost.convention)), "count", text)
    others = [one for one in brief.figures if one.label != compute.label]
    memory = next((at for at, one in enumerate(others) if one.label == "Memory"), len(others) - 1)
    return [*others[: memory + 1], compute, *others[memory + 1 :]]


def _card(figure: BriefFigure, brief: Brief, splits: Mapping[str, dict[str, float]]) -> PageFigure:
    value, spread = value_and_range(figure)
    method, how = provenance(figure.figure.how)
    return PageFigure(
        label=figure.label,
        value=marked_total(value, partial=brief.partial),
        range=spread,
        text=figure.text,
        method=method,
        how=how,
        detail=figure.detail,
        split=_largest(splits.get(figure.label, {})),
    )


def _splits(subject: Subject) -> dict[str, dict[str, float]]:
    """The shares of each figure's parts, by its label and the part's name."""
    document = subject.document
    split = time_split(document)
    time = (
        {f"{row.name}{f' ×{row.count}' if row.count > 1 else ''}": row.share for row in split.rows} if split else {}
    )
    bounds: dict[str, float] = {}
    for row in subject.rows:
        bounds[bottleneck(row.bound)] = bounds.get(bottleneck(row.bound), 0.0) + (row.share or 0.0)
    return {
        "Time": time,
        "Memory": _memory_shares(subject),
        "Compute": _shares({name: sums.flops or 0 for name, sums in subject.cost.categories.items()}),
        "Limit": bounds,
        "Energy": _energy_shares(subject),
        "Size": _shares(
            {one.name: one.totals.bytes for one in document.weights.families} if document.weights else {}
        ),
    }


def _memory_shares(subject: Subject) -> dict[str, float]:
    """What is in memory at the peak of the forward pass."""
    memory = subject.memory
    if memory is None or memory.inference is None:
        return {}
    fixed = {"parameters": memory.parameters, "buffers": memory.buffers, "inputs": memory.inputs}
    return _shares(
        {**{name: one.value or 0 for name, one in fixed.items()}, **_plural(memory.inference.peak.by_role)}
    )


def _plural(roles: Mapping[str, int]) -> dict[str, int]:
    return {f"{role}s": size for role, size in roles.items()}


def _energy_shares(subject: Subject) -> dict[str, float]:
    """The energy of the pass by type of op; empty if the energy of ops is unknown."""
    profile = subject.document.profile
    energies = profile.energy.kinds if profile is not None and profile.energy is not None else []
    sums: dict[str, float] = {}
    for kind, energy in zip(subject.cost.kinds, energies, strict=False):
        if energy is not None and energy.each.value is not None:
            sums[kind.category] = sums.get(kind.category, 0.0) + energy.each.value * energy.count
    return _shares(sums)


def _shares(amounts: Mapping[str, float]) -> dict[str, float]:
    whole = sum(amounts.values())
    return {name: amount / whole for name, amount in amounts.items() if amount > 0} if whole else {}


def _largest(shares: Mapping[str, float]) -> list[Split]:
    """The largest parts, and one for the rest."""
    parts = sorted(shares.items(), key=lambda part: -part[1])
    kept = parts[: _PARTS - 1] if len(parts) > _PARTS else parts
    rest = sum(share for _, share in parts[len(kept) :])
    return [
        *(Split(printable(name), round(share, 4)) for name, share in kept),
        *([Split(_OTHER, round(rest, 4))] if rest else []),
    ]
