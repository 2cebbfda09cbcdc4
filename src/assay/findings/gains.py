"""What a finding is worth: time from measurements or the roofline, memory and stored bytes from counts.

A gain is an upper bound: the time of ops that would vanish, or what they take above the limits of the machine.
Without measured times and without a measured machine, a gain of time is unknown, never a guess from bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.document.findings import BYTES, MEMORY, TIME, Gain
from assay.document.provenance import Counted, Figure, Modelled, Provenance, Unknown
from assay.findings.facts import ModelFacts, share_of


def removed_ops(facts: ModelFacts, ops: Iterable[int]) -> Gain:
    """The time of `ops`, all of which would vanish; only its share if the machine was too busy for times."""
    chosen = list(ops)
    gain = kernel_gain(facts, facts.time_of(chosen), facts.kernels_of(chosen))
    return gain if gain.share.value is not None else Gain(TIME, gain.amount, facts.time_share(chosen))


def scaled_ops(facts: ModelFacts, ops: Iterable[int], share: float, assumption: str) -> Gain:
    """This share of the time of `ops`; `assumption` is the reason for it."""
    took = facts.time_of(ops)
    if took.value is None:
        return time_gain(facts, took)
    how = Modelled("share of the measured or modelled time of the ops", (assumption, *_assumptions(took.how)))
    return kernel_gain(facts, Figure(share * took.value, how))


def above_limits(facts: ModelFacts, ops: Iterable[int]) -> Gain:
    """The measured time of `ops` beyond what the limits of this machine allow."""
    return _beyond_roofline(facts, ops, 1.0, "measured time minus the roofline")


def padding_gain(facts: ModelFacts, ops: Iterable[int], padded_ratio: float) -> Gain:
    """The measured time of `ops` beyond what the limits allow for padded sizes with `padded_ratio` times the work."""
    return _beyond_roofline(facts, ops, padded_ratio, "measured time minus the roofline of the padded sizes")


def _beyond_roofline(facts: ModelFacts, ops: Iterable[int], ratio: float, model: str) -> Gain:
    """What each kind of op takes beyond `ratio` times its roofline; a kind that takes less saves nothing."""
    chosen = list(ops)
    took, least = facts.time_of(chosen), facts.roofline_of(chosen)
    if took.value is None or isinstance(took.how, Modelled) or least.value is None:
        unknown = took if took.value is None else least if least.value is None else None
        return time_gain(facts, unknown or Figure(None, Unknown("the ops were not timed")))
    by_kind: dict[int, list[int]] = {}
    for op in chosen:
        by_kind.setdefault(facts.document.ops[op].kind, []).append(op)
    beyond = [
        (facts.time_of(group).value or 0.0) - ratio * (facts.roofline_of(group).value or 0.0)
        for group in by_kind.values()
    ]
    saved = sum(max(each, 0.0) for each in beyond)
    return kernel_gain(facts, Figure(saved, Modelled(model, _assumptions(least.how))))


def kernel_gain(facts: ModelFacts, seconds: Figure, removed: float = 0.0) -> Gain:
    """A gain of `seconds` of ops, `removed` of whose kernels vanish.

    A pass on an accelerator takes as long as its kernels or as launching them, whichever is longer: faster kernels
    save nothing while it waits for launches, and kernels that vanish save their launches, too.
    """
    timing, kernels = facts.document.timing, facts.kernels_of(None)
    if not facts.on_accelerator or timing is None or seconds.value is None or not kernels:
        return time_gain(facts, seconds)
    device_s, host_s, whole_s = timing.device.value, timing.host.value, facts.pass_time.value
    if device_s is None or host_s is None or whole_s is None:
        return time_gain(facts, seconds)
    launches_s = host_s * removed / kernels
    saved = whole_s - max(device_s - seconds.value, host_s - launches_s)
    how = Modelled("kernels or their launches, whichever take longer", _assumptions(seconds.how))
    return time_gain(facts, Figure(min(max(saved, 0.0), seconds.value + launches_s), how))


def time_gain(facts: ModelFacts, seconds: Figure) -> Gain:
    """A gain of `seconds` per pass."""
    whole = facts.pass_time if not isinstance(seconds.how, Modelled) or facts.measured else facts.roofline_of(None)
    if seconds.value is None or not whole.value:
        why = seconds.how if seconds.value is None else Unknown("the time of the pass is unknown")
        return Gain(TIME, seconds, Figure(None, why if isinstance(why, Unknown) else Unknown("not measured")))
    return Gain(TIME, seconds, Figure(seconds.value / whole.value, seconds.how))


def memory_gain(saved: float, peak: float, how: Counted) -> Gain:
    """A gain of `saved` bytes of the peak memory of a pass."""
    return Gain(MEMORY, Figure(saved, how), share_of(saved, peak, how))


def bytes_gain(saved: float, stored: float, how: Provenance) -> Gain:
    """A gain of `saved` bytes of the `stored` bytes of all weights."""
    share = Figure(saved / stored, how) if stored else Figure(None, Unknown("the bytes of all weights are unknown"))
    return Gain(BYTES, Figure(saved, how), share)


def _assumptions(how: Provenance) -> tuple[str, ...]:
    return how.assumptions if isinstance(how, Modelled) else ()
