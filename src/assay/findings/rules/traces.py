"""Rules about profiler traces: time in which an accelerator waits for data, launches, copies or other ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from assay import units
from assay.document.findings import TIME, Gain
from assay.document.provenance import Figure, Measured
from assay.document.trace import DeviceTimes, KernelTimes, RankTimes, Trace
from assay.findings.catalogue import rule
from assay.findings.facts import ModelFacts
from assay.findings.needs import DEVICE_TRACE, RANKS, TRACE
from assay.findings.rule import RuleMatch
from assay.messages import plural
from assay.trace.read.across import trace_sets
from assay.trace.read.devices import LATE, QUEUED, SYNCHRONIZED

MIN_SHARE = 0.05
"""Waiting for less than this share of the time is not worth a finding."""
MIN_IDLE = 0.1
"""The same for idle time, of which a little is normal."""
SMALL_NS = 10_000
"""Kernels shorter than this take about as long to launch as to run."""
MIN_KERNELS = 50
_HOW = Measured("timestamps of the trace")


class _Use(Struct, frozen=True):
    """The use of one accelerator, with the trace it is from."""

    trace: Trace
    device: DeviceTimes

    @property
    def name(self) -> str:
        """`GPU 0`, or `GPU 0 of rank 3`."""
        return self.device.name if self.trace.rank is None else f"{self.device.name} of rank {self.trace.rank}"


def _worst(facts: ModelFacts, wasted: Callable[[_Use], int], least: float) -> tuple[_Use, int] | None:
    """The accelerator with the largest wasted share of its time, and nanoseconds; None if it is below `least`."""
    uses = [_Use(trace, device) for trace in facts.document.traces for device in trace.devices if device.span_ns]
    if not uses:
        return None
    worst = max(uses, key=lambda use: wasted(use) / use.device.span_ns)
    amount = wasted(worst)
    return (worst, amount) if amount >= least * worst.device.span_ns else None


def _gain(wasted_ns: int, whole_ns: int) -> Gain:
    return Gain(TIME, Figure(wasted_ns / 1e9, _HOW), Figure(wasted_ns / whole_ns, _HOW))


def _evidence(whole_ns: int, **times_ns: int) -> dict[str, Figure]:
    """The times in seconds, the first also as a share of the whole."""
    first = next(iter(times_ns.values()))
    shares = {"share_of_time": Figure(first / whole_ns, _HOW)}
    return {**shares, **{f"{name}_s": Figure(value / 1e9, _HOW) for name, value in times_ns.items()}}


def _time(ns: int, whole_ns: int) -> str:
    """`1.2 ms (34 %)`."""
    return f"{units.seconds(ns / 1e9)} ({units.share(ns, whole_ns)})"


@rule(
    "T101",
    "advice",
    "an input pipeline that keeps the accelerator or the training loop waiting",
    advice="Load data in parallel: raise num_workers, set pin_memory and persistent_workers, prefetch the next "
    "batch, and move decoding and augmentation into the workers or onto the accelerator.",
    needs=(TRACE,),
)
def input_pipeline(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Time in which an accelerator is idle while input data is loaded; without one, the time of loading itself."""
    found = _worst(facts, lambda use: use.device.idle_loading_ns, MIN_SHARE)
    if found is not None:
        use, wasted = found
        whole = use.device.span_ns
        title = f"{use.name} is idle for {_time(wasted, whole)} while input data is loaded"
        evidence = _evidence(whole, idle_while_loading=wasted, loading=use.trace.loading_ns)
        yield RuleMatch(title, evidence, gain=_gain(wasted, whole))
        return
    loading = [trace for trace in facts.document.traces if not trace.devices and trace.wall_ns]
    slowest = max(loading, key=lambda trace: trace.loading_ns / trace.wall_ns, default=None)
    if slowest is not None and slowest.loading_ns >= MIN_SHARE * slowest.wall_ns:
        title = f"loading input data takes {_time(slowest.loading_ns, slowest.wall_ns)} of the trace"
        evidence = _evidence(slowest.wall_ns, loading=slowest.loading_ns)
        yield RuleMatch(title, evidence, gain=_gain(slowest.loading_ns, slowest.wall_ns))


@rule(
    "T102",
    "advice",
    "an idle accelerator, and what it waits for",
    advice="Look at the gaps in the trace (assay trace --by step, or Perfetto), and remove what causes them.",
    needs=(DEVICE_TRACE,),
)
def idle_gaps(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Idle time outside data loading, by its most frequent cause; launches of small kernels are T104."""
    found = _worst(facts, _unexplained_idle, MIN_IDLE)
    if found is None:
        return
    use, idle = found
    causes = {cause: ns for cause, ns in use.device.idle_causes.items() if cause != LATE or not _launch_bound(use)}
    cause = max(causes, key=lambda each: causes[each])
    whole = use.device.span_ns
    yield RuleMatch(
        f"{use.name} is idle for {_time(idle, whole)}, mostly because {_CAUSES.get(cause, (cause, ''))[0]}",
        _evidence(whole, idle=idle, **_with_loading(causes[cause], use)),
        advice=_CAUSES.get(cause, ("", ""))[1],
        gain=_gain(idle, whole),
    )


def _with_loading(main_cause: int, use: _Use) -> dict[str, int]:
    """Idle times that include what T101 and T104 claim, as their names state."""
    return {"main_cause_with_loading": main_cause, "all_idle_with_loading": use.device.idle_ns}


def _unexplained_idle(use: _Use) -> int:
    """Idle time that neither loading nor launching small kernels explains."""
    device = use.device
    launching = device.idle_causes.get(LATE, 0) if _launch_bound(use) else 0
    return max(device.idle_ns - max(device.idle_loading_ns, launching), 0)


_CAUSES = {
    LATE: (
        "the CPU launched kernels late",
        "Let the CPU run ahead: use torch.compile or CUDA graphs, a larger batch, fused or foreach optimizers, and "
        "keep logging and Python work out of the step.",
    ),
    SYNCHRONIZED: (
        "the CPU waited for it before launching more",
        "Remove synchronisation from the step: .item(), .cpu(), .tolist(), printing a tensor, nonzero and boolean "
        "indexing make the CPU wait. Log every few steps, and keep the loss on the accelerator.",
    ),
    QUEUED: (
        "kernels waited for other streams or ranks",
        "Look at what the kernels after the gaps depend on: copies, events of other streams, or communication.",
    ),
}
"""What an accelerator waits for, in words, and what to do about it."""


@rule(
    "T103",
    "warning",
    "ranks that work longer than the others",
    advice="Balance the work: equal numbers of tokens, not samples, layers of equal cost in pipelines, and "
    "experts of equal load. If the work is equal, check clocks, temperature and other processes on that machine.",
    needs=(RANKS,),
)
def stragglers(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Ranks that work at least 5 % longer than the median rank, communication excluded."""
    for traced in trace_sets(facts.document.traces):
        slow = [rank for rank in traced.ranks if rank.straggler and rank.behind is not None]
        if not slow:
            continue
        worst = max(slow, key=lambda rank: rank.behind or 0.0)
        extra = round(_worked(worst) * (1 - 1 / (1 + (worst.behind or 0.0))))
        others = f", and {plural(len(slow) - 1, 'other rank')} too" if len(slow) > 1 else ""
        share = units.share(worst.behind or 0.0, 1.0)
        evidence = {"stragglers": Figure(len(slow), _HOW), "ranks": Figure(len(traced.ranks), _HOW)}
        times = _evidence(worst.wall_ns, behind_median=extra, working=_worked(worst))
        title = f"rank {worst.rank} works {share} longer than the median rank{others}"
        yield RuleMatch(title, {**evidence, **times}, gain=_gain(extra, worst.wall_ns))
        return


def _worked(rank: RankTimes) -> int:
    return rank.cpu_ns if rank.working_ns is None else rank.working_ns


@rule(
    "T104",
    "advice",
    "many short kernels with the accelerator waiting for their launches",
    advice="Use CUDA graphs or torch.compile(mode='reduce-overhead'), fuse element-wise ops, or use a larger batch: "
    "these kernels take about as long to launch as to run.",
    needs=(DEVICE_TRACE,),
)
def small_kernels(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Accelerators whose median kernel is shorter than 10 µs and that are idle because the CPU launches late."""
    found = _worst(facts, lambda use: use.device.idle_causes.get(LATE, 0) if _launch_bound(use) else 0, MIN_SHARE)
    if found is None:
        return
    use, late = found
    kernels = _compute(use.trace.kernels)
    middle, count, whole = _median_ns(kernels), sum(row.calls for row in kernels), use.device.span_ns
    title = (
        f"{use.name} waits {_time(late, whole)} for launches: the median kernel takes {units.seconds(middle / 1e9)}"
    )
    evidence = {**_evidence(whole, waiting_for_launches=late, median_kernel=middle), "kernels": Figure(count, _HOW)}
    yield RuleMatch(title, evidence, gain=_gain(late, whole))


def _launch_bound(use: _Use) -> bool:
    """Whether most kernels are short and the accelerator waits for launches."""
    kernels, device = _compute(use.trace.kernels), use.device
    enough = sum(row.calls for row in kernels) >= MIN_KERNELS
    return enough and _median_ns(kernels) < SMALL_NS and device.idle_causes.get(LATE, 0) >= MIN_IDLE * device.span_ns


def _compute(kernels: Sequence[KernelTimes]) -> list[KernelTimes]:
    return [row for row in kernels if row.kind == "compute"]


def _median_ns(kernels: Sequence[KernelTimes]) -> int:
    """The median over executions of the median time of their kernel."""
    half = sum(row.calls for row in kernels) / 2
    done = 0
    for row in sorted(kernels, key=lambda row: row.per_call.median_ns):
        done += row.calls
        if done >= half:
            return row.per_call.median_ns
    return 0


@rule(
    "T105",
    "advice",
    "communication that does not overlap with compute",
    advice="Overlap communication with the backward pass: tune the buckets of DDP (bucket_cap_mb) or the prefetching "
    "of FSDP (backward_prefetch, forward_prefetch), send less (bfloat16 gradients, fewer and larger collectives), or "
    "accumulate gradients with no_sync().",
    needs=(DEVICE_TRACE,),
)
def exposed_communication(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Time in which communication kernels ran and no compute kernel did, without waiting for other ranks."""
    shortest = _shortest_collectives(facts.document.traces)
    found = _worst(facts, lambda use: _exposed(use, shortest), MIN_SHARE)
    if found is not None:
        use, exposed = found
        whole, waiting = use.device.span_ns, _waiting(use.trace, shortest)
        every = use.device.communication_ns - waiting
        title = (
            f"{use.name} communicates for {_time(exposed, whole)} without computing "
            f"({units.share(exposed, every)} of its communication)"
        )
        evidence = _evidence(whole, exposed_communication=exposed, communication=every, waiting_for_ranks=waiting)
        yield RuleMatch(title, evidence, gain=_gain(exposed, whole))


_Collective = tuple[str, str, int]
"""The model, the kernel and its number of calls, which ranks that take part in the same collectives share."""


def _collectives(trace: Trace) -> dict[_Collective, int]:
    """The time in each collective."""
    rows = [row for row in trace.kernels if row.kind == "communication"]
    return {(trace.model_name, row.name, row.calls): row.gpu_ns for row in rows}


def _shortest_collectives(traces: Sequence[Trace]) -> dict[_Collective, int]:
    """The time of each collective in the rank that arrives last and so waits for none."""
    shortest: dict[_Collective, int] = {}
    for trace in traces:
        for collective, ns in _collectives(trace).items() if trace.rank is not None else ():
            shortest[collective] = min(ns, shortest.get(collective, ns))
    return shortest


def _waiting(trace: Trace, shortest: dict[_Collective, int]) -> int:
    """The part of communication in which a rank waits for others."""
    return sum(ns - shortest.get(collective, ns) for collective, ns in _collectives(trace).items())


def _exposed(use: _Use, shortest: dict[_Collective, int]) -> int:
    device = use.device
    exposed = device.communication_ns - device.communication_hidden_ns
    return max(exposed - _waiting(use.trace, shortest), 0)


@rule(
    "T106",
    "advice",
    "copies that do not overlap with compute",
    advice="Pin the memory of batches (pin_memory=True) and copy with non_blocking=True while the last batch is "
    "computed; keep what is copied in every step on the accelerator.",
    needs=(DEVICE_TRACE,),
)
def exposed_copies(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Time in which copies ran and no compute kernel did."""
    found = _worst(facts, lambda use: use.device.copy_ns - use.device.copy_hidden_ns, MIN_SHARE)
    if found is None:
        return
    use, exposed = found
    whole = use.device.span_ns
    copies = [row for row in use.trace.kernels if row.kind == "copy"]
    pageable = sum(row.gpu_ns for row in copies if "pageable" in row.name.lower())
    title = f"{use.name} copies for {_time(exposed, whole)} without computing"
    more = (
        f", {units.share(pageable, sum(row.gpu_ns for row in copies))} of it from pageable memory" if pageable else ""
    )
    evidence = _evidence(whole, exposed_copies=exposed, copies=use.device.copy_ns, pageable_copies=pageable)
    yield RuleMatch(f"{title}{more}", evidence, gain=_gain(exposed, whole))
