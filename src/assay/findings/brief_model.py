"""The brief of a model: its time, memory, limits and energy as far as they are known, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay import units
from assay.analysis.achieved import COMPUTE, MEMORY, NEITHER, OVERHEAD, Achieved
from assay.analysis.architecture import architecture
from assay.analysis.cost.totals import add_up
from assay.analysis.devices import Device
from assay.analysis.memory import Memory, constant_bytes, memory_of
from assay.analysis.parameters import parameters
from assay.analysis.roofline import roofline_of
from assay.document import tree
from assay.document.cost import Cost
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.provenance import Counted, Figure, Modelled
from assay.findings.brief import Brief, BriefFigure, NotKnown, brief_of, largest_share
from assay.messages import plural

_UNKNOWN_FAMILY = "unknown"
_NOT_RUN = (".assay.json", ".assay.json.gz", ".pt2")
"""Sources of models that cannot be run, so that nothing can be tried on them."""
_MODEL_OF_SCRIPT = "CODE.py::FUNCTION"
"""The model that a TorchScript file was made from: the file itself cannot be changed."""
WEIGHT_VALUES = "values of weights"
"""What a brief calls them in its list of what is unknown."""
_OUTSIDE = "outside"
_LIMITS = {
    COMPUTE: "compute-bound",
    MEMORY: "memory-bound",
    OVERHEAD: "launch-bound",
    NEITHER: "in inefficient kernels",
    _OUTSIDE: "in Python or waiting, outside ops",
}
"""How ops with each bottleneck are described."""


def model_brief(
    document: Document,
    findings: Sequence[Finding],
    *,
    rows: Sequence[Achieved] = (),
    missing: Mapping[str, str] | None = None,
    device: Device | None = None,
    source: str = "",
) -> Brief:
    """The brief of a recorded model.

    Args:
        document: The model, with whatever was measured.
        findings: What was found about it.
        rows: Its timed kinds of op, with their bottlenecks if the machine's limits are known.
        missing: Parts that could not be determined, each with the reason.
        device: The machine with its limits, for the least time of a pass that was not timed.
        source: The model and its options as on the command line, for the commands that the brief suggests.
    """
    cost = document.cost if document.cost is not None else add_up(document)
    can_try = bool(source) and not source.split(" ")[0].endswith(_NOT_RUN)
    if document.origin.kind == "scripted" and document.run.mode != "real" and "--trust" not in source.split(" "):
        source = f"{source} --trust"  # timing it runs its code
    given = _MODEL_OF_SCRIPT if document.origin.kind == "scripted" else source
    return brief_of(
        _identity(document, cost),
        [*_time(document, cost, rows), *_memory(document), *_limit(document, rows, device), *_energy(document)],
        findings,
        [
            *(
                one
                for one in _unknown(document, cost, rows, source if can_try else "", missing or {})
                if one.what not in (missing or {})
            ),
            *_reasons(missing or {}),
        ],
        clean=_examined(document),
        next_step=f"assay check {given} --try" if can_try else "",
        tries=can_try,
        partial=document.partial,
    )


def _identity(document: Document, cost: Cost) -> tuple[str, ...]:
    """The model's name, family, parameters, MACs and inputs, as far as they are known."""
    counted, family = parameters(document), architecture(document).label
    is_counted = bool(document.tensors) or (counted.stored is not None and counted.count is not None)
    constants = constant_bytes(document)
    macs = cost.forward.macs if document.recorded and cost.forward.known else None
    inputs = ", ".join(units.shape(each.type.shape) for each in document.run.inputs)
    return (
        document.model_class or document.origin.name or "model",
        "" if family == _UNKNOWN_FAMILY else family,
        f"{units.count(counted.count)} parameters" if is_counted and (counted.count or not constants) else "",
        f"{units.size(constants)} of constants" if constants and counted.count == 0 else "",
        f"{units.count(macs)} MACs" if macs is not None else "",
        f"input {inputs}" if inputs else "",
    )


def _time(document: Document, cost: Cost, rows: Sequence[Achieved]) -> list[BriefFigure]:
    """The time of a pass and the type of op that takes most of it; without a time, the FLOPs instead."""
    profile = document.profile
    if profile is not None and profile.kinds and profile.whole.value is not None:
        shares: dict[str, float] = {}
        for row in rows:
            category = cost.kinds[row.kind].category
            shares[category] = shares.get(category, 0.0) + _share_of_pass(row, document)
        shares["Python or waiting, outside ops"] = _outside_ops(document, rows)
        step = profile.step.whole if profile.step is not None else None
        training = [BriefFigure("Training", step, "seconds", "per step, forward and backward")] if step else []
        text = "per pass in training mode" if document.run.training else "per pass"
        return [BriefFigure("Time", profile.whole, "seconds", text, largest_share(shares)), *training]
    if not document.recorded:
        return []
    total = cost.forward.flops
    flops = {name: (sums.flops or 0) / total for name, sums in cost.categories.items()} if total else {}
    if total is None:
        return []
    figure = Figure(total, Counted(cost.convention))
    return [BriefFigure("Compute", figure, "count", "FLOPs per pass", largest_share(flops))]


def _memory(document: Document) -> list[BriefFigure]:
    """The peak of inference and the place it occurs; only the weights if no pass was recorded."""
    if not document.tensors and not document.storages:
        return []
    memory: Memory = memory_of(document)
    constants = f"{units.size(memory.constants)} constants" if memory.has_large_constants else ""
    own = f"{units.size(memory.parameters.value)} weights" if memory.parameters.value or not constants else ""
    is_quantized = document.weights_fit is not None and document.weights_fit.quantization
    weights = ", ".join(filter(None, (own, constants, "if not quantized" if is_quantized else "")))
    if memory.inference is None or not document.storages:
        return [BriefFigure("Memory", memory.parameters, "bytes", "weights")]
    place = memory.inference.peak.module
    return [BriefFigure("Memory", memory.inference.total, "bytes", f"peak, at {place}" if place else "peak", weights)]


def _limit(document: Document, rows: Sequence[Achieved], device: Device | None) -> list[BriefFigure]:
    """The bottleneck of most of the time; of an untimed pass, that of the shortest time it can take."""
    above = sum(row.recoverable_s or 0.0 for row in rows)
    by, detail = _bound_shares(document, rows), f"{units.seconds(above)} above the limits" if above else ""
    how = Modelled("measured times against the limits of this machine")
    if not rows and device is not None and document.recorded and document.failure is None:
        roofline = roofline_of(document, device)
        whole = roofline.bound_s or 0.0
        by = {bound: seconds / whole for bound, seconds in roofline.by.items() if bound in _LIMITS and seconds}
        how, detail = roofline.how, f"{units.seconds(whole)} at the limits of this machine"
    if not by:
        return []
    bound = max(by, key=lambda one: by[one])
    return [BriefFigure("Limit", Figure(by[bound], how), "share", f"of the time {_LIMITS[bound]}", detail)]


def _bound_shares(document: Document, rows: Sequence[Achieved]) -> dict[str, float]:
    """The share of the pass by bottleneck, as far as it is known."""
    shares: dict[str, float] = {}
    for row in rows:
        if row.bound in _LIMITS:
            shares[row.bound] = shares.get(row.bound, 0.0) + _share_of_pass(row, document)
    return {**shares, _OUTSIDE: _outside_ops(document, rows)} if shares else {}


def _outside_ops(document: Document, rows: Sequence[Achieved]) -> float:
    """The share of the pass in which no op runs on the host; 0 if it is unknown or an accelerator was timed."""
    if document.timing is not None and document.timing.device.value is not None:
        return 0.0
    known = all(row.total_s is not None for row in rows)
    return max(1 - sum(_share_of_pass(row, document) for row in rows), 0.0) if known else 0.0


def _share_of_pass(row: Achieved, document: Document) -> float:
    """The share of the pass that a kind of op takes; of the time of all ops if the time of the pass was withheld."""
    whole = document.profile.whole.value if document.profile is not None else None
    return row.total_s / whole if row.total_s is not None and whole else row.share or 0.0


def _energy(document: Document) -> list[BriefFigure]:
    energy = document.profile.energy if document.profile is not None else None
    if energy is None or energy.whole.value is None:
        return []
    return [BriefFigure("Energy", energy.whole, "joules", "per pass")]


def _examined(document: Document) -> str:
    """Which values were examined; empty if none were, or if the pass stopped."""
    if document.failure is not None:
        return ""
    report = document.weights
    weights = "the weights that could be read" if report is not None and report.failures else "weights"
    read = {weights: report is not None and bool(report.tensors), "outputs": document.activations is not None}
    names = [name for name, known in read.items() if known]
    return " or ".join(names)


def _unknown(
    document: Document, cost: Cost, rows: Sequence[Achieved], source: str, missing: Mapping[str, str]
) -> list[NotKnown]:
    """What the document does not contain, and the command that would measure it."""
    if document.failure is not None and document.failure.unread:
        return [] if missing else [NotKnown("computation and memory of a pass", document.failure.error)]
    if document.failure is not None:
        place = tree.path_text(document.failure.module)
        return [NotKnown(f"what follows {place}, where the pass stopped", document.failure.error)]
    unknown = [*_not_timed(document, rows, source)]
    failures = document.weights.failures if document.weights is not None else ()
    if failures:
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        which = "some weights" if document.weights is not None and document.weights.tensors else "all weights"
        unknown.append(NotKnown(f"values of {which}", f"{failures[0]}{more}"))
    examined = document.weights is not None or document.activations is not None or WEIGHT_VALUES in missing
    interpreted = document.origin.kind == "scripted" and document.run.mode == "meta"
    if document.recorded and not examined:
        what = "weights" if interpreted else "weights and outputs"
        ask = _ask("check", source.removesuffix(" --trust") if interpreted else source)
        unknown.append(NotKnown(f"problems in {what}", ask or "not examined"))
    if interpreted and document.run.assumptions:
        count = plural(len(document.run.assumptions), "value")
        unknown.append(NotKnown(f"{count} that branches, loops or sizes depend on", "assumed, see -v; or --trust"))
    if cost.unknown:
        names = ", ".join(dict.fromkeys(one.target.removesuffix(".default") for one in cost.unknown))
        unknown.append(
            NotKnown(f"cost of {plural(sum(one.count for one in cost.unknown), 'op')}", f"no formula: {names}")
        )
    return unknown


def _not_timed(document: Document, rows: Sequence[Achieved], source: str) -> Iterator[NotKnown]:
    """What was not measured about the time of the pass."""
    profile = document.profile
    if profile is None:
        if document.recorded:
            yield NotKnown("time", _ask("profile", source) or "not measured")
        return
    if profile.whole.value is None:
        yield NotKnown("time", getattr(profile.whole.how, "why", ""))
    elif rows and all(row.bound not in _LIMITS for row in rows):
        yield NotKnown("bottlenecks", "run `assay machine` once on the machine that it ran on")
    if profile.energy is None:
        yield NotKnown("energy", _ask("profile", source) or "not measured")


def _ask(command: str, source: str) -> str:
    return f"assay {command} {source}" if source else ""


def _reasons(missing: Mapping[str, str]) -> list[NotKnown]:
    """One entry per reason, which names all parts that are missing for it."""
    parts: dict[str, list[str]] = {}
    for what, why in missing.items():
        parts.setdefault(why, []).append(what)
    return [NotKnown(", ".join(names), why) for why, names in parts.items()]
