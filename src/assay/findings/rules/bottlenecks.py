"""Rules about where the measured time of a pass goes: launches, Python between ops, ops far below the limits."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.achieved import NEITHER, Achieved, achieved_rates
from assay.document.provenance import Figure, Measured, Modelled
from assay.findings.catalogue import rule
from assay.findings.facts import BY_PASS, ModelFacts
from assay.findings.gains import above_limits, time_gain
from assay.findings.naming import joined_names
from assay.findings.needs import LIMITS, PROFILE, TIMING
from assay.findings.rule import RuleMatch
from assay.findings.rules.layout import channels_first_ops
from assay.messages import plural

MIN_BETWEEN = 0.2
"""A pass is bound by Python if at least this share of it is spent between ops."""
MIN_BETWEEN_S = 50e-6
"""Less Python than this is about what calling a compiled model costs."""
MIN_RECOVERABLE = 0.05
"""The share of the pass above the limits from which ops are reported."""
MIN_OP_S = 20e-6
"""Shorter ops are dominated by the overhead of starting them, whatever their kernel."""


@rule(
    "C215",
    "advice",
    "a pass that is limited by launching kernels",
    advice="Replay the pass as a CUDA graph (torch.compile with mode='reduce-overhead', or torch.cuda.graph), which "
    "launches all kernels at once; or make kernels fewer and larger with torch.compile or a larger batch.",
    needs=(TIMING,),
)
def launch_bound(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Passes in which the accelerator waits for the host to launch kernels."""
    timing, profile = facts.document.timing, facts.document.profile
    if timing is None or not timing.launch_bound:
        return
    kernels = sum(kind.kernels or 0 for kind in profile.kinds if kind is not None) if profile is not None else 0
    share = units.share(timing.gap.value, timing.whole.value)
    evidence = {"time_s": timing.whole, "kernel_time_s": timing.device, "host_time_s": timing.host}
    if kernels:
        evidence["kernels"] = Figure(kernels, BY_PASS)
    yield RuleMatch(
        f"the accelerator is idle for {share} of the pass: its kernels take {units.seconds(timing.device.value)} of "
        f"{units.seconds(timing.whole.value)}, launching them {units.seconds(timing.host.value)}",
        evidence,
        gain=time_gain(facts, timing.gap),
    )


@rule(
    "C216",
    "advice",
    "a pass on the CPU that spends much of its time in Python",
    advice="Compile the model with torch.compile, which removes Python from the pass, or do more work per op: a "
    "larger batch, fewer and wider layers, no loops over items.",
    needs=(PROFILE,),
)
def host_bound(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Passes on a CPU whose ops together take much less time than the pass."""
    profile = facts.document.profile
    # On a busy machine, waiting for a processor would count as time between ops.
    if profile is None or facts.on_accelerator or profile.whole.value is None or profile.closure.value is None:
        return
    seconds = (1 - profile.closure.value) * profile.whole.value
    if profile.processor.value is not None:  # Python takes a processor; the rest is waiting
        seconds = min(seconds, profile.processor.value)
    between = seconds / profile.whole.value
    if between < MIN_BETWEEN:
        return
    how = Measured("pass time minus the times of its ops", profile.passes)
    modelled = Modelled("time between ops", ("a compiled pass spends none of it", "its own guards take no time"))
    yield RuleMatch(
        f"{units.share(between, 1)} of the pass is Python between {plural(len(facts.document.ops), 'op')}",
        {"share_between_ops": Figure(between, how), "operations": Figure(len(facts.document.ops), BY_PASS)},
        gain=time_gain(facts, Figure(seconds, modelled)),
        severity="note" if seconds < MIN_BETWEEN_S else "",
    )


@rule(
    "C217",
    "advice",
    "ops that are far below both limits of the machine",
    advice="Try another kernel for these ops: torch.compile, another memory layout or dtype, sizes that are "
    "multiples of 8 or 64, contiguous operands. Neither arithmetic nor memory bandwidth limits them.",
    needs=(PROFILE, LIMITS),
)
def inefficient(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The kinds of op that reach neither the peak FLOP/s nor the bandwidth, by the time they take above both."""
    whole = facts.pass_time.value
    rows = [row for row in achieved_rates(facts.document, facts.device) if _is_inefficient(row)]
    rows = sorted(rows, key=lambda row: -(row.recoverable_s or 0.0))
    lost = sum(row.recoverable_s or 0.0 for row in rows)
    if not whole or lost < MIN_RECOVERABLE * whole:
        return
    kinds = {row.kind for row in rows}
    ops = [index for index, op in enumerate(facts.document.ops) if op.kind in kinds]
    gain = above_limits(facts, ops)
    explained = set(ops) <= set(channels_first_ops(facts))
    worst = rows[0]
    yield RuleMatch(
        f"{plural(len(rows), 'kind')} of op {'takes' if len(rows) == 1 else 'take'} {units.share(lost, whole)} of "
        f"the pass more than the limits of this machine allow: {joined_names([_described(row) for row in rows])}",
        {
            "recoverable_s": gain.amount,
            "worst_time_s": Figure(worst.time_s, Measured("clock of the passes", worst.count)),
            "worst_limit_s": facts.roofline_of([next(op for op in ops if facts.document.ops[op].kind == worst.kind)]),
        },
        modules=facts.modules(ops),
        gain=gain,
        severity="note" if explained else "",
    )


def _is_inefficient(row: Achieved) -> bool:
    return row.bound == NEITHER and bool(row.recoverable_s) and (row.time_s or 0.0) >= MIN_OP_S


def _described(row: Achieved) -> str:
    """The op with the shape of its first input: `torch.max_pool2d (1x64x112x112)`."""
    return f"{row.name} ({units.shape(row.shapes[0])})" if row.shapes else row.name
