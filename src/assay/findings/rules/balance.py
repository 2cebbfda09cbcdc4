"""Rules about what a pass spends its work on: a few layers, reading weights, small ops, float64."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.flow import is_view
from assay.document.findings import Gain
from assay.document.provenance import Figure, Measured, Modelled, Unknown
from assay.findings.catalogue import rule
from assay.findings.facts import BY_CLOCK, BY_FORMULA, BY_PASS, ModelFacts, share_of
from assay.findings.gains import scaled_ops, time_gain
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import MODULES, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules, in_ops
from assay.findings.time_spent import time_evidence, time_text
from assay.messages import plural

MIN_BYTES = 1 << 20
"""If a pass moves fewer bytes, shares of them are not meaningful."""
HEAVY_SHARE = 0.5
MAX_SHARE_OF_MODULES = 0.1
"""The largest share of the compute modules that still counts as a few."""
MIN_MODULES = 10
WEIGHTS_SHARE = 0.6
SMALL_BYTES = 1 << 16
"""Roughly the bytes a kernel moves in the time it takes to launch the next one."""
MIN_SMALL_OPS = 500
SMALL_SHARE = 0.8
LAUNCH_S = 5e-6


@rule(
    "C201",
    "note",
    "a few modules that take most of the time, or do most of the arithmetic",
    advice="Optimise these modules first: pruning, a narrower dtype or a better kernel hardly pays off elsewhere.",
    needs=(MODULES, WHOLE_PASS),
)
def heavy_modules(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The fewest modules that take half of the measured time, or else of the FLOPs, if they are at most a tenth."""
    flops = {i: float(cost.own.flops or 0) for i, cost in enumerate(facts.cost.modules) if cost.own.macs}
    seconds = _seconds_by_module(facts)
    own = flops if seconds is None else {index: seconds.get(index, 0.0) for index in flops}
    whole = (facts.cost.forward.flops or 0) if seconds is None else sum(seconds.values())
    heavy = _heaviest(own, HEAVY_SHARE * whole)
    if not whole or len(own) < MIN_MODULES or not heavy or len(heavy) > MAX_SHARE_OF_MODULES * len(own):
        return
    done, work = sum(own[index] for index in heavy), sum(flops[index] for index in heavy)
    evidence = {
        "flops": Figure(round(work), BY_FORMULA),
        "share_of_flops": share_of(work, facts.cost.forward.flops or 0, BY_FORMULA),
    }
    what = "of the FLOPs are"
    if seconds is not None:
        what = "of the time is"
        evidence |= time_evidence(facts, _ops_in(facts, heavy))
    title = f"{units.share(done, whole)} {what} in {len(heavy)} of {len(own)} compute modules"
    yield in_modules(facts, sorted(heavy), title, evidence)


def _heaviest(own: dict[int, float], target: float) -> list[int]:
    """The fewest modules that reach `target` together; empty if all of them do not."""
    heavy: list[int] = []
    done = smallest = 0.0
    for index in sorted(own, key=lambda index: -own[index]):
        # Modules that tie with the last one are included: a subset of equal layers would be arbitrary.
        if done >= target and own[index] < smallest:
            break
        heavy.append(index)
        done, smallest = done + own[index], own[index]
    return heavy if done >= target else []


def _ops_in(facts: ModelFacts, modules: list[int]) -> list[int]:
    """The ops that ran directly in these modules."""
    chosen = set(modules)
    return [op for op in range(len(facts.document.ops)) if facts.module(op) in chosen]


def _seconds_by_module(facts: ModelFacts) -> dict[int, float] | None:
    """The measured time of each module's own ops; None if it is unknown."""
    if not facts.measured or facts.time_of(None).value is None:
        return None
    seconds: dict[int, float] = {}
    for op in range(len(facts.document.ops)):
        module = facts.module(op)
        seconds[module] = seconds.get(module, 0.0) + (facts.time_of([op]).value or 0.0)
    return seconds


@rule(
    "C202",
    "note",
    "a pass that mostly reads weights",
    advice="Use a larger batch, which is nearly free while reading the weights takes most of the time, or store the "
    "weights in a narrower dtype (weight-only quantization), which saves up to its share of that time.",
    needs=(WHOLE_PASS,),
)
def weight_bound(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The share of parameters and buffers in the bytes that the pass moves."""
    read, moved = facts.cost.forward.read_parameters, facts.bytes
    if moved < MIN_BYTES or read < WEIGHTS_SHARE * moved:
        return
    evidence = {"bytes_of_weights": Figure(read, BY_FORMULA), "share_of_bytes": share_of(read, moved, BY_FORMULA)}
    intensity = facts.cost.forward.intensity
    if intensity is not None:
        evidence["flops_per_byte"] = Figure(intensity, BY_FORMULA)
    title = f"{units.share(read, moved)} of the bytes moved per pass are weights ({units.size(read)})"
    yield RuleMatch(title, evidence, gain=_gain_of_weights(facts))


def _gain_of_weights(facts: ModelFacts) -> Gain:
    """The time that memory-bound ops take to read weights."""
    if facts.device is None:
        return time_gain(facts, Figure(None, Unknown("which ops are memory-bound is unknown (`assay machine`)")))
    ops = [op for op in range(len(facts.document.ops)) if facts.is_memory_bound(op)]
    read, moved = sum(facts.kind_cost(op).read_parameters for op in ops), facts.bytes_of(ops)
    return scaled_ops(facts, ops, read / moved if moved else 0.0, "memory-bound ops take time in proportion to bytes")


@rule(
    "C205",
    "advice",
    "hundreds of small ops, which are overhead-bound on an accelerator",
    advice="Launch them together with torch.compile(mode='reduce-overhead') or CUDA graphs, or make them fewer and "
    "larger: use a larger input, or batch work that runs one item at a time.",
    needs=(WHOLE_PASS,),
)
def many_small(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Ops that move few bytes, if they are most of the ops that are not views."""
    views = [is_view(kind) for kind in facts.document.kinds]
    working = {kind: times for kind, times in facts.executions.items() if not views[kind]}
    small = sum(times for kind, times in working.items() if facts.cost.kinds[kind].bytes < SMALL_BYTES)
    total = sum(working.values())
    if small < MIN_SMALL_OPS or small < SMALL_SHARE * total:
        return
    how = Modelled("one kernel per op", (f"{units.seconds(LAUNCH_S)} per kernel launch, typical of a GPU",))
    yield RuleMatch(
        f"{units.exact(small)} of {units.exact(total)} ops move less than {units.size(SMALL_BYTES)} each at this "
        "input size",
        {
            "small_operations": Figure(small, BY_PASS),
            "operations": Figure(total, BY_PASS),
            "start_time_s": Figure(total * LAUNCH_S, how),
        },
        gain=time_gain(facts, _time_between_ops(facts)),
    )


def _time_between_ops(facts: ModelFacts) -> Figure:
    """The measured time of the pass in which no op ran: Python, and launches that the device waits for."""
    whole, inside = facts.pass_time, facts.time_of(None)
    if whole.value is None or inside.value is None or not facts.measured:
        return Figure(None, Unknown("the pass was not timed, or the machine was too busy"))
    passes = facts.document.profile.passes if facts.document.profile is not None else 1
    return Figure(max(whole.value - inside.value, 0.0), Measured(BY_CLOCK, passes))


@rule(
    "C206",
    "warning",
    "arithmetic in float64",
    advice="Look for tensors created from NumPy arrays or with dtype=torch.float64 and cast them to the model's "
    "dtype: float64 takes twice the bytes of float32 and runs at a small fraction of its speed on most accelerators.",
    needs=(WHOLE_PASS,),
)
def double_precision(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Ops that compute float64 tensors in a model whose parameters have another dtype."""
    dtypes = facts.parameters.by_dtype
    if facts.document.run.dtype == "float64" or next(iter(dtypes), "") == "float64":
        return
    wide = [
        index
        for index, kind in enumerate(facts.document.kinds)
        if any(one.type.dtype == "float64" and one.type.shape for one in kind.outputs)
        and (facts.cost.kinds[index].flops or 0) > 0
    ]
    ops = [index for index, op in enumerate(facts.document.ops) if op.kind in set(wide)]
    if not ops:
        return
    names = fold_names(facts.document.kinds[kind].name for kind in wide)
    took = time_text(facts, ops)
    title = f"{plural(len(ops), 'op')} in float64{f', {took}' if took else ''} ({joined_names(names, 2)})"
    evidence = {
        "operations": Figure(len(ops), BY_PASS),
        "bytes": Figure(facts.bytes_of(ops), BY_FORMULA),
        "flops": Figure(facts.flops_of(ops), BY_FORMULA),
        **time_evidence(facts, ops),
    }
    gain = scaled_ops(facts, ops, 0.5, "float32 moves half the bytes and computes at least twice as fast")
    yield in_ops(facts, ops, title, evidence, gain)
