"""The results of trials in the findings whose advice they follow: one line each, and a measured gain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from assay.document.findings import ENERGY, MEMORY, TIME, Finding, Gain
from assay.document.provenance import Figure, Measured
from assay.document.trials import DIFFERENT, FASTER, INCONCLUSIVE, LOSSY, SAME, SLOWER, VERDICTS, TrialResult

_NOTABLE = 0.01
"""Peak memory and energy are part of the line if they change by at least this share."""
_PLAIN = 0.01
"""Smaller errors are written with an exponent."""
_BEST_FIRST = (FASTER, SAME, INCONCLUSIVE, SLOWER, DIFFERENT)


def verified(findings: Iterable[Finding], trials: Sequence[TrialResult]) -> list[Finding]:
    """The findings, each with the best result of the changes that follow its advice, if any were tried."""
    return [_with_result(finding, trials) for finding in findings]


def verdict_line(trial: TrialResult) -> str:
    """The result of a trial in one line: `1.43× [1.38–1.47], max |Δ| 2e-3, peak −12 %`."""
    about = _error(trial) if trial.verdict == DIFFERENT else ""
    reason = ", ".join(filter(None, (about, trial.detail)))
    if trial.speedup.value is None or trial.verdict not in (FASTER, SAME, INCONCLUSIVE, SLOWER):
        return f"{trial.verdict}: {reason}" if reason else trial.verdict
    speed = f"{trial.speedup.value:.2f}{'×' * (trial.verdict in (FASTER, SLOWER))}{_interval(trial.speedup)}"
    start = {FASTER: speed, SLOWER: f"slower: {speed}"}.get(trial.verdict, f"{trial.verdict} ({speed})")
    peak = _change("peak", trial.memory_before, trial.memory_after)
    energy = _change("energy", trial.energy_before, trial.energy_after, trial.items)
    error = "" if trial.verdict == INCONCLUSIVE else _error(trial)
    return ", ".join(filter(None, (start, error, peak, energy, trial.detail)))


def measured_gain(trial: TrialResult, of: str) -> Gain | None:
    """What the trial saved of this quantity, negative if it cost more; None if that was not measured clearly."""
    if trial.verdict not in (FASTER, SAME, SLOWER):
        return None
    if of == TIME and trial.speedup.value and trial.before.value is not None:
        return _gain(TIME, trial.before.value, trial.before.value / trial.speedup.value, trial)
    if of == MEMORY and trial.memory_before.value and trial.memory_after.value is not None:
        return _gain(MEMORY, trial.memory_before.value, trial.memory_after.value, trial)
    if of == ENERGY and trial.energy_before.value and trial.energy_after.value is not None:
        return _gain(ENERGY, trial.energy_before.value, trial.energy_after.value / trial.items, trial)
    return None


def best_trial(finding: Finding, trials: Sequence[TrialResult]) -> TrialResult | None:
    """The best result of one change that follows the advice of a finding; None if none was tried."""
    return max(_own_trials(finding, trials), key=lambda trial: _rank(trial, _quantity(finding)), default=None)


def _quantity(finding: Finding) -> str:
    """What following the advice saves."""
    return TIME if finding.gain is None else finding.gain.of


def _own_trials(finding: Finding, trials: Sequence[TrialResult]) -> list[TrialResult]:
    return [each for each in trials if finding.code in each.codes and len(each.changes) == 1 and not each.against]


def _with_result(finding: Finding, trials: Sequence[TrialResult]) -> Finding:
    """The finding with the best result of one change that follows its advice."""
    own = _own_trials(finding, trials)
    best = best_trial(finding, trials)
    if best is None:
        return finding
    line = verdict_line(best) if len(own) == 1 else f"{best.name}: {verdict_line(best)}"
    measured = measured_gain(best, _quantity(finding))
    # What was predicted to be next to nothing may turn out to be worth something.
    severity = "advice" if finding.severity == "note" and best.verdict == FASTER else finding.severity
    return replace(finding, verified=line, severity=severity, gain=_scaled(measured, finding.gain))


def _scaled(measured: Gain | None, predicted: Gain | None) -> Gain | None:
    """The measured gain, as a share of the same pass as the predicted one; the predicted one if there is none."""
    if measured is None or predicted is None or predicted.of != measured.of:
        return measured or predicted
    amount, share = predicted.amount.value, predicted.share.value
    if not amount or not share or measured.share.value is None:
        return measured
    return Gain(measured.of, Figure(measured.share.value * amount / share, measured.amount.how), measured.share)


def _rank(trial: TrialResult, of: str) -> tuple[float, float]:
    """How good a result is: its verdict, then what it saves; for memory and energy what it saves comes first."""
    gain = measured_gain(trial, of)
    saved = float("-inf") if gain is None or gain.share.value is None else float(gain.share.value)
    verdict = -float((*_BEST_FIRST, *VERDICTS).index(trial.verdict))
    return (verdict, saved) if of == TIME else (saved, verdict)


def _gain(of: str, before: float, after: float, trial: TrialResult) -> Gain:
    how = Measured(f"a trial of {trial.name}", max(trial.rounds, 1))
    return Gain(of, Figure(before - after, how), Figure(1 - after / before, how))


def _interval(figure: Figure) -> str:
    span = figure.how.range if isinstance(figure.how, Measured) else None
    return "" if span is None else f" [{span[0]:.2f}–{span[1]:.2f}]"


def _error(trial: TrialResult) -> str:
    """How outputs differ; empty if they were not compared."""
    if trial.outputs is None:
        return ""
    if trial.outputs.identical:
        return "identical outputs"
    noise = trial.outputs.sqnr_db if trial.effect == LOSSY else None
    return f"max |Δ| {_short(trial.outputs.max_abs)}" + ("" if noise is None else f" ({noise:.0f} dB)")


def _short(value: float) -> str:
    """Two digits, with a short exponent if the value is small: `0.25`, `2e-3`."""
    if value == 0 or value >= _PLAIN:
        return f"{value:.2g}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{float(digits):g}e{int(exponent)}"


def _change(name: str, before: Figure, after: Figure, items: float = 1.0) -> str:
    """A notable change of a quantity as a signed percentage: `peak −12 %`; empty if it is unknown or small."""
    if not before.value or after.value is None:
        return ""
    share = after.value / items / before.value - 1
    return f"{name} {'+' if share > 0 else '−'}{abs(share):.0%}".replace("%", " %") if abs(share) >= _NOTABLE else ""
