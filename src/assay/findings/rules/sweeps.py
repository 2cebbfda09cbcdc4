"""Rules about settings whose effect was measured by a sweep: batch size and number of threads."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.document.findings import TIME, Gain
from assay.document.profile import Sweep, SweepPoint, ThreadPoint
from assay.document.provenance import Counted, Figure, Measured
from assay.findings.catalogue import rule
from assay.findings.facts import ModelFacts
from assay.findings.gains import time_gain
from assay.findings.needs import PROFILE, SWEEP
from assay.findings.rule import RuleMatch
from assay.messages import plural

MIN_GAIN = 0.05
"""A setting that saves a smaller share of the time is within the noise of a sweep."""
BY_SETTINGS = Counted("settings of the process")


@rule(
    "C213",
    "advice",
    "a batch below the knee of the throughput",
    advice="Process more items per pass, up to the knee, if latency and memory allow: a small batch reads all "
    "weights and pays all overheads for few items.",
    needs=(SWEEP,),
)
def small_batch(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The batch of the recorded pass, compared with the smallest batch that reaches 90 % of the best throughput."""
    profile = facts.document.profile
    for sweep in profile.sweeps if profile is not None else ():
        now, knee = _own_point(facts, sweep), _knee(sweep)
        if sweep.axis != "batch" or now is None or knee is None or not now.throughput or not knee.throughput:
            continue
        size, best = now.sizes["batch"], knee.sizes["batch"]
        share = 1 - now.throughput / knee.throughput
        if best <= size or share < MIN_GAIN:
            continue
        how = Measured("times of passes at both batch sizes", profile.passes if profile is not None else 1)
        took = now.time.value
        amount = Figure(share * took, how) if took is not None else now.time
        yield RuleMatch(
            f"batch {size} reaches {units.share(now.throughput, knee.throughput)} of the items per second of batch "
            f"{best}",
            {
                "items_per_second": Figure(now.throughput, how),
                "items_per_second_at_knee": Figure(knee.throughput, how),
                "knee": Figure(best, how),
            },
            gain=Gain(TIME, amount, Figure(share, how)),
        )


def _own_point(facts: ModelFacts, sweep: Sweep) -> SweepPoint | None:
    """The point of the sweep at the batch of the recorded pass; None if it was not measured."""
    shapes = [each.type.shape for each in facts.document.run.inputs if each.type.shape]
    return next((point for point in sweep.points if shapes and point.sizes.get(sweep.axis) == shapes[0][0]), None)


def _knee(sweep: Sweep) -> SweepPoint | None:
    """The point at the knee; if throughput still rises at the largest size, the one with the best throughput."""
    measured = [point for point in sweep.points if point.throughput is not None]
    at_knee = next((point for point in measured if point.sizes.get(sweep.axis) == sweep.knee), None)
    return at_knee or max(measured, key=lambda point: point.throughput or 0.0, default=None)


@rule(
    "C214",
    "advice",
    "a number of CPU threads that is not the fastest",
    advice="Call torch.set_num_threads with the fastest number, or set OMP_NUM_THREADS. With more threads than "
    "processors, threads wait for each other; several processes should share the processors among them.",
    needs=(PROFILE,),
)
def thread_count(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The pass with its number of threads, compared with the fastest one measured and with the processors."""
    profile, processors = facts.document.profile, facts.document.machine.processors
    threads = profile.threads if profile is not None else None
    if profile is None or threads is None:
        return
    timed = [point for point in profile.thread_points if point.time.value is not None]
    now = next((point for point in timed if point.threads == threads), None)
    best = min(timed, key=lambda point: (point.time.value or 0.0, point.threads), default=None)
    evidence = {"threads": Figure(threads, BY_SETTINGS)}
    if processors is not None:
        evidence["processors"] = Figure(processors, BY_SETTINGS)
    saved = _saved(now, best) if now is not None and best is not None else None
    if saved is not None and best is not None and now is not None:
        evidence |= {"fastest_threads": Figure(best.threads, saved.how), "fastest_time_s": best.time}
        yield RuleMatch(
            f"the pass takes {units.seconds(now.time.value)} with {plural(threads, 'thread')} and "
            f"{units.seconds(best.time.value)} with {best.threads}",
            evidence,
            gain=time_gain(facts, saved),
        )
    elif processors is not None and threads > processors and best is None:
        yield RuleMatch(f"{threads} threads share {plural(processors, 'processor')}", evidence)


def _saved(now: ThreadPoint, best: ThreadPoint) -> Figure | None:
    """Seconds that the fastest number of threads saves; None if that is within the noise of the measurement."""
    took, least = now.time.value, best.time.value
    if took is None or least is None or took - least < MIN_GAIN * took:
        return None
    ranges = [point.time.how.range for point in (now, best) if isinstance(point.time.how, Measured)]
    if len(ranges) == 2 and ranges[0] is not None and ranges[1] is not None and ranges[0][0] <= ranges[1][1]:
        return None
    repeats = best.time.how.repeats if isinstance(best.time.how, Measured) else 1
    return Figure(took - least, Measured("times of passes with both numbers of threads", repeats))
