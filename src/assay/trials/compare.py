"""Compares a changed model with the original: outputs first, then time, peak memory and energy."""

from __future__ import annotations

import torch
from msgspec.structs import replace

from assay.document.machine import measured_figure, unknown_figure
from assay.document.provenance import Figure, Measured
from assay.document.trials import DIFFERENT, TrialResult
from assay.recorder import guard
from assay.timing.device import device_of, now, synchronizer
from assay.timing.pairs import PROCESSOR, PairedTimes, PairSide, time_pairs
from assay.trials.joules import energies
from assay.trials.leaves import Leaves, leaves_of, walk
from assay.trials.outputs import OutputCheck, as_variable, check_outputs
from assay.trials.passes import TrialPass
from assay.trials.peaks import peak_bytes
from assay.trials.placement import mover
from assay.trials.runnable import Runnable

NOT_REPRODUCIBLE = "outputs of the original differ as much between two runs with the same seed"
RANDOM = "outputs could not be compared: those of the original depend on random numbers"
_CLOCKS = {PROCESSOR: "CPU time of the thread"}


def compare(
    base: Runnable,
    changed: Runnable,
    *,
    effect: str,
    training: bool = False,
    seconds: float = 10.0,
    energy: bool = True,
    seed: int = 0,
) -> TrialResult:
    """What a change with this effect does to outputs, time, memory and energy; both models must be copies.

    Timing takes about `seconds`. If outputs differ more than they may, nothing is timed. An error that a pass raises
    is passed on.
    """
    before, after = (TrialPass(each, training=training) for each in (base, changed))
    device = _device(base)
    items = changed.items / base.items
    with guard.random_state():
        comparison = _Outputs(before, after, changed, device, effect, seed)
        check, note = comparison.check()
        result = TrialResult((), detail=note, effect=effect, outputs=check.error, training=training, items=items)
        result = replace(result, prepare=measured_figure(comparison.first_s, "clock"))
        if check.broken:
            return replace(result, verdict=DIFFERENT, detail=check.reason)
        times = time_pairs(
            PairSide(before.run, before.ready, not before.consumed, before.settings),
            PairSide(after.run, after.ready, not after.consumed, after.settings),
            device,
            items=items,
            seconds=seconds,
            seed=seed,
            place=mover((base.model, changed.model), seed),
        )
        result = _timed(result, times)
        result = _with_memory(result, base, changed, before, after, device)
        return _with_energy(result, before, after, device) if energy else result


class _Outputs:
    """The outputs of both models for the same seeds."""

    def __init__(
        self, before: TrialPass, after: TrialPass, changed: Runnable, device: torch.device, effect: str, seed: int
    ) -> None:
        self._before, self._after, self._effect, self._seed = before, after, effect, seed
        self._coarsest = before.coarsest(device.type)
        self._parts = changed.compare or (lambda old, new: (old, new))
        whole = changed.compare is None and changed.items == 1
        self._names = before.names() & after.names() if whole else set()
        """The parameters whose gradients are compared; a change may merge or split others."""
        self._wait = synchronizer(device)
        self.first_s = 0.0
        """Seconds of the first pass of the changed model."""

    def check(self) -> tuple[OutputCheck, str]:
        """How the second passes of both differ, and a note if the original's own outputs vary."""
        first = self._original(self._seed)
        old = self._before.output(self._seed)
        second = leaves_of(old) | self._before.gradients(self._names)
        self._first_pass()
        corresponding = self._parts(old, self._after.output(self._seed))
        gradients = (side.gradients(self._names) for side in (self._before, self._after))
        found = self._compared(*(leaves_of(part) | each for part, each in zip(corresponding, gradients, strict=True)))
        if not found.broken:
            return found, found.reason
        if as_variable(found, self._compared(second, first)):
            return OutputCheck(found.error), NOT_REPRODUCIBLE
        if as_variable(found, self._compared(second, self._original(self._seed + 1))):
            return OutputCheck(found.error), RANDOM
        return found, ""

    def _first_pass(self) -> None:
        begin = now()
        self._after.output(self._seed)
        self._wait()
        self.first_s = (now() - begin) / 1e9

    def _original(self, seed: int) -> Leaves:
        return leaves_of(self._before.output(seed)) | self._before.gradients(self._names)

    def _compared(self, before: Leaves, after: Leaves) -> OutputCheck:
        return check_outputs(before, after, self._effect, coarsest=self._coarsest)


def _device(base: Runnable) -> torch.device:
    parameters = base.model.parameters() if isinstance(base.model, torch.nn.Module) else ()
    inputs = [leaf for _, leaf in walk((base.args, base.kwargs)) if isinstance(leaf, torch.Tensor)]
    return device_of([*parameters, *inputs])


def _timed(result: TrialResult, times: PairedTimes) -> TrialResult:
    clock = _CLOCKS.get(times.clock, "clock")
    return replace(
        result,
        verdict=times.verdict,
        detail="; ".join(filter(None, (times.detail, result.detail))),
        speedup=_ratio(times.speedup, times.low, times.high, times),
        null=_ratio(times.null, times.null_low, times.null_high, times),
        rounds=times.rounds,
        before=measured_figure(times.before_s, f"{clock}, median of interleaved passes", repeats=2 * times.rounds),
        after=measured_figure(times.after_s, f"{clock}, median of interleaved passes", repeats=2 * times.rounds),
        clock=times.clock,
    )


def _ratio(middle: float | None, low: float | None, high: float | None, times: PairedTimes) -> Figure:
    if middle is None or low is None or high is None:
        return unknown_figure(times.detail)
    return Figure(middle, Measured("interleaved passes, 99 % interval over blocks", times.rounds, range=(low, high)))


def _with_memory(
    result: TrialResult, base: Runnable, changed: Runnable, before: TrialPass, after: TrialPass, device: torch.device
) -> TrialResult:
    peaks = []
    for runnable, side in ((base, before), (changed, after)):
        side.ready()
        peaks.append(peak_bytes(runnable, side.whole, device))
        side.ready()
    return replace(result, memory_before=peaks[0], memory_after=peaks[1])


def _with_energy(result: TrialResult, before: TrialPass, after: TrialPass, device: torch.device) -> TrialResult:
    if result.clock == PROCESSOR:
        busy = unknown_figure("the machine was busy, and its sensors cover all processes")
        return replace(result, energy_before=busy, energy_after=busy)
    joules = energies((before.whole, after.whole), device)
    return replace(result, energy_before=joules[0], energy_after=joules[1])
