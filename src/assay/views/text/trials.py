"""Trials as a table: what each change did to time, outputs, memory and energy; losses as plainly as gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from assay import units
from assay.document.provenance import Figure, Measured
from assay.document.trials import FAILED, SKIPPED, UNTRIED, OutputError, TrialResult
from assay.views.tables import Column, Table
from assay.views.text.report import Parts, section

_COLUMNS: tuple[Column[TrialResult], ...] = (
    Column("change", lambda trial: trial.name, shrinks=True),
    Column("verdict", lambda trial: trial.verdict),
    Column("speed-up", lambda trial: speedup_text(trial.speedup), "right"),
    Column("outputs", lambda trial: outputs_text(trial.outputs), shrinks=True, drops=True),
    Column("peak memory", lambda trial: change_text(trial.memory_before, trial.memory_after), "right", drops=True),
    Column("energy", lambda trial: change_text(trial.energy_before, trial.energy_after), "right", drops=True),
    Column("rounds", lambda trial: trial.rounds or None, "right", drops=True),
    Column("follows", lambda trial: ", ".join(trial.codes) or None, drops=True),
    Column("detail", lambda trial: trial.detail or None, shrinks=True, drops=True),
)


_NOT_MEASURED = (FAILED, SKIPPED, UNTRIED)
_SMALL = 0.1


class ListedChange(Protocol):
    """What a list of changes shows of each."""

    @property
    def name(self) -> str:
        """The name, as it is written after --try."""

    @property
    def summary(self) -> str:
        """What it does."""

    @property
    def effect(self) -> str:
        """What it may do to outputs."""

    @property
    def codes(self) -> tuple[str, ...]:
        """The rules whose advice it follows."""


def changes_table(changes: Sequence[ListedChange]) -> Table:
    """One row per change that can be tried."""
    columns: tuple[Column[ListedChange], ...] = (
        Column("change", lambda change: change.name),
        Column("what it does", lambda change: change.summary, shrinks=True),
        Column("outputs", lambda change: change.effect),
        Column("follows", lambda change: ", ".join(change.codes) or None),
    )
    return Table(columns, changes)


def trial_parts(trials: Sequence[TrialResult]) -> Parts:
    """What was tried, the best stack step by step, then what could not be tried and why."""
    rest = [trial for trial in trials if trial.verdict in _NOT_MEASURED]
    tried = [trial for trial in trials if trial.verdict not in _NOT_MEASURED]
    steps = [trial for trial in tried if trial.against]
    reasons = (Column[TrialResult]("change", lambda trial: trial.name), _COLUMNS[1], _COLUMNS[-1])
    against = Column[TrialResult]("against", lambda trial: " + ".join(trial.against), shrinks=True)
    alone = [trial for trial in tried if not trial.against]
    # A search measures its best stack, or the only change that helped, once more against the original.
    searched = bool(steps) or any(trial.changes == alone[-1].changes for trial in alone[:-1])
    alone, final = (alone[:-1], alone[-1:]) if searched else (alone, [])
    return [
        *section("TRIED ON A COPY, against the original", Table(_COLUMNS, alone)),
        *section("STACKED, each against the stack before it", Table((_COLUMNS[0], against, *_COLUMNS[1:]), steps)),
        *section("BEST STACK, against the original", Table(_COLUMNS, final)),
        *section("NOT TRIED, OR FAILED", Table(reasons, rest)),
    ]


def speedup_text(speedup: Figure) -> str | None:
    """`1.43× [1.38–1.47]`; None if it is unknown."""
    if speedup.value is None:
        return None
    interval = speedup.how.range if isinstance(speedup.how, Measured) else None
    ends = "" if interval is None else f" [{ratio_text(interval[0])}–{ratio_text(interval[1])}]"
    return f"{ratio_text(speedup.value)}×{ends}"


def ratio_text(ratio: float) -> str:
    """A ratio with two decimals, or two digits if it is small."""
    return f"{ratio:.2f}" if ratio >= _SMALL else f"{ratio:.2g}"


def outputs_text(outputs: OutputError | None) -> str | None:
    """`max |Δ| 2e-3, 46 dB, top-1 100 %`; None if outputs were not compared."""
    if outputs is None:
        return None
    if outputs.identical:
        return "identical"
    parts = [f"max |Δ| {outputs.max_abs:.1g}"]
    parts += [f"{outputs.sqnr_db:.0f} dB"] if outputs.sqnr_db is not None else []
    parts += [f"top-1 {units.share(outputs.top1, 1)}"] if outputs.top1 is not None else []
    return ", ".join(parts)


def change_text(before: Figure, after: Figure) -> str | None:
    """`−12 %`, the change from before to after; None if either is unknown."""
    if not before.value or after.value is None:
        return None
    share = after.value / before.value - 1
    return f"{'−' if share < 0 else '+'}{abs(share):.0%}".replace("%", " %")
