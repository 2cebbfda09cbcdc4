"""The brief of a model: its time, memory, limits and energy as far as they are known, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from assay import units
from assay.analysis.achieved import COMPUTE, MEMORY, NEITHER, OVERHEAD, Achieved
from assay.analysis.architecture import architecture
from assay.analysis.cost.totals import add_up
from assay.analysis.executed import executed_kinds, grouped
from assay.analysis.memory import Memory, memory_of
from assay.analysis.parameters import parameters
from assay.document.cost import Cost
from assay.document.document import Document
from assay.document.findings import TIME, Finding
from assay.document.provenance import Counted, Figure
from assay.findings.brief import MAX_ACTIONS, Brief, BriefFigure, NotKnown
from assay.messages import plural

_UNKNOWN_FAMILY = "unknown"
_MAX_PROBLEMS = 3
_NOT_RUN = (".assay.json", ".assay.json.gz", ".pt2")
"""Sources of models that cannot be run, so that nothing can be tried on them."""
_LIMITS = {
    COMPUTE: "compute",
    MEMORY: "memory bandwidth",
    OVERHEAD: "launch overhead",
    NEITHER: "inefficient kernels",
}
"""What limits the ops with each bottleneck."""


def model_brief(
    document: Document,
    findings: Sequence[Finding],
    *,
    rows: Sequence[Achieved] = (),
    missing: Mapping[str, str] | None = None,
    source: str = "",
) -> Brief:
    """The brief of a recorded model.

    Args:
        document: The model, with whatever was measured.
        findings: What was found about it.
        rows: Its timed kinds of op, with their bottlenecks if the machine's limits are known.
        missing: Parts that could not be determined, each with the reason.
        source: The model as it is named on the command line, for the commands that the brief suggests.
    """
    cost = document.cost if document.cost is not None else add_up(document)
    actions = _actions(findings)
    problems = [one.title for one in findings if one.severity in ("error", "warning")]
    more = len(problems) - _MAX_PROBLEMS
    return Brief(
        identity=_identity(document, cost),
        figures=[*_time(document, cost, rows), *_memory(document), *_limit(rows), *_energy(document)],
        actions=actions[:MAX_ACTIONS],
        more_actions=len(actions[MAX_ACTIONS:]),
        next_step=f"assay check {source} --try" if actions and source and not source.endswith(_NOT_RUN) else "",
        problems=[*problems[:_MAX_PROBLEMS], *([f"{plural(more, 'more problem')} below"] if more > 0 else [])],
        clean=_clean(document),
        unknown=[
            *(one for one in _unknown(document, cost, rows, source) if one.what not in (missing or {})),
            *_reasons(missing or {}),
        ],
        partial=document.partial,
    )


def _identity(document: Document, cost: Cost) -> tuple[str, ...]:
    """The model's name, family, parameters, MACs and inputs, as far as they are known."""
    counted, family = parameters(document), architecture(document).label
    macs = cost.forward.macs if document.recorded and cost.forward.known else None
    inputs = ", ".join(units.shape(each.type.shape) for each in document.run.inputs)
    parts = (
        document.model_class or document.origin.name or "model",
        "" if family == _UNKNOWN_FAMILY else family,
        f"{units.count(counted.count)} parameters" if document.tensors else "",
        f"{units.count(macs)} MACs" if macs is not None else "",
        f"input {inputs}" if inputs else "",
    )
    return tuple(filter(None, parts))


def _time(document: Document, cost: Cost, rows: Sequence[Achieved]) -> list[BriefFigure]:
    """The time of a pass and the type of op that takes most of it; without a time, the FLOPs instead."""
    profile = document.profile
    if profile is not None and profile.kinds and profile.whole.value is not None:
        shares: dict[str, float] = {}
        for row in rows:
            category = cost.kinds[row.kind].category
            shares[category] = shares.get(category, 0.0) + (row.share or 0.0)
        return [BriefFigure("Time", profile.whole, "seconds", "per pass", _largest(shares))]
    if not document.recorded:
        return []
    total = cost.forward.flops
    types = grouped(executed_kinds(document, cost), lambda row: row.each.category)
    flops = {name: float(sums.flops or 0) / total for name, sums in types.items()} if total else {}
    figure = Figure(total, Counted(cost.convention)) if total is not None else None
    if figure is None:
        return []
    return [BriefFigure("Compute", figure, "count", "FLOPs per pass", _largest(flops))]


def _largest(shares: Mapping[str, float]) -> str:
    """`92 % in Convolution`; nothing if no share is known."""
    name = max(shares, key=lambda one: shares[one], default=None)
    return f"{units.share(shares[name], 1)} in {name}" if name is not None and shares[name] else ""


def _memory(document: Document) -> list[BriefFigure]:
    """The peak of inference and the place it occurs; only the weights if no pass was recorded."""
    if not document.tensors:
        return []
    memory: Memory = memory_of(document)
    weights = f"{units.size(memory.parameters.value)} weights"
    if memory.inference is None or not document.storages:
        return [BriefFigure("Memory", memory.parameters, "bytes", "weights")]
    place = memory.inference.peak.module
    return [BriefFigure("Memory", memory.inference.total, "bytes", f"peak, at {place}" if place else "peak", weights)]


def _limit(rows: Sequence[Achieved]) -> list[BriefFigure]:
    """The bottleneck of most of the time."""
    shares: dict[str, float] = {}
    for row in rows:
        if row.bound in _LIMITS and row.share is not None:
            shares[row.bound] = shares.get(row.bound, 0.0) + row.share
    if not shares:
        return []
    bound = max(shares, key=lambda one: shares[one])
    recoverable = sum(row.recoverable_s or 0.0 for row in rows)
    detail = f"{units.seconds(recoverable)} above the roofline" if recoverable else ""
    return [
        BriefFigure("Limit", text=f"{_LIMITS[bound]}: {units.share(shares[bound], 1)} of the time", detail=detail)
    ]


def _energy(document: Document) -> list[BriefFigure]:
    energy = document.profile.energy if document.profile is not None else None
    if energy is None or energy.whole.value is None:
        return []
    return [BriefFigure("Energy", energy.whole, "joules", "per pass")]


def _actions(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, except notes, that state what following them saves: time first, then by their share."""

    def share(finding: Finding) -> float:
        gain = finding.gain
        return (gain.share.value or 0.0) if gain is not None else 0.0

    worth = [one for one in findings if one.severity != "note" and share(one) > 0]
    return sorted(worth, key=lambda one: (one.gain is None or one.gain.of != TIME, -share(one)))


def _clean(document: Document) -> str:
    """What was examined; empty if no values were."""
    read = {"weights": document.weights, "outputs": document.activations}
    names = [name for name, values in read.items() if values is not None]
    return f"none in {' or '.join(names)}" if names else ""


def _unknown(document: Document, cost: Cost, rows: Sequence[Achieved], source: str) -> list[NotKnown]:
    """What the document does not contain, and the command that would measure it."""
    unknown = []
    whole = document.profile.whole if document.profile is not None else None
    if whole is None and document.recorded:
        unknown.append(NotKnown("time", f"assay profile {source}" if source else "not measured"))
    elif whole is not None and whole.value is None:
        unknown.append(NotKnown("time", getattr(whole.how, "why", "")))
    if rows and all(row.bound not in _LIMITS for row in rows) and whole is not None and whole.value is not None:
        unknown.append(NotKnown("bottlenecks", "run `assay machine` once to measure this machine's limits"))
    if cost.unknown:
        names = ", ".join(dict.fromkeys(one.target.removesuffix(".default") for one in cost.unknown))
        unknown.append(
            NotKnown(f"cost of {plural(sum(one.count for one in cost.unknown), 'op')}", f"no formula: {names}")
        )
    return unknown


def _reasons(missing: Mapping[str, str]) -> list[NotKnown]:
    """One entry per reason, which names all parts that are missing for it."""
    parts: dict[str, list[str]] = {}
    for what, why in missing.items():
        parts.setdefault(why, []).append(what)
    return [NotKnown(", ".join(names), why) for why, names in parts.items()]
