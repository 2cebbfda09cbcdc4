"""Options of `assay check` that try and apply changes, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from assay.api.options import Progress, RunOptions
from assay.cli.options import Output, TrialOption, options_as_value
from assay.cli.progress import ProgressLine
from assay.cli.stderr import Messages

if TYPE_CHECKING:
    from assay.api.attempt import AttemptOptions
    from assay.api.check import CheckReport
    from assay.document.trials import TrialResult
    from assay.sources.opened import Opened
    from assay.trials.plan import TrialProgress

FINDINGS = "findings"
"""The value of --try without one: the changes that follow the advice of the findings."""

_option = partial(click.option, cls=TrialOption)


@dataclass(frozen=True)
class TrialOptions:
    """The options about trials as given on the command line."""

    attempt: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    exact: bool = False
    trial_seconds: float = 10.0
    trial_limit: float = 300.0
    trial_budget: float | None = None
    no_energy: bool = False
    changes: bool = False

    def names(self, more: Sequence[str]) -> list[str]:
        """The names to try; `more` are those that follow the first one without an option."""
        given = [name.strip() for text in (*self.attempt, *self.apply, *more) for name in text.split(",")]
        return [name for name in given if name and name != FINDINGS]

    @property
    def tries(self) -> bool:
        """Whether anything is tried."""
        return bool(self.attempt or self.apply)

    def wishes(self, more: Sequence[str]) -> AttemptOptions:
        """What to try, checked before any long work."""
        from assay.api.attempt import AttemptOptions

        names = tuple(self.names(more)) or None
        times = self.trial_seconds, self.trial_limit, self.trial_budget
        wishes = AttemptOptions(names, self.exact, *times, energy=not self.no_energy)
        wishes.check()
        return wishes


trial_options = options_as_value(
    TrialOptions,
    "trial",
    [
        _option(
            "--try",
            "attempt",
            multiple=True,
            is_flag=False,
            flag_value=FINDINGS,
            metavar="[NAMES]",
            help="Try changes on copies of the model and measure them: those that follow the findings, or rule "
            "codes, names of changes (stacks: channels_last+compile), all, or best to search the fastest stack.",
        ),
        _option(
            "--apply",
            multiple=True,
            metavar="NAMES",
            help="Try these changes, and write those that hold to -o FILE: a script (.py), an exported program "
            "(.pt2) or a patch (.patch).",
        ),
        _option("--exact", is_flag=True, help="Leave out changes that lose precision on purpose."),
        _option(
            "--trial-seconds", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds per trial."
        ),
        _option(
            "--trial-limit",
            type=click.FloatRange(0),
            default=300.0,
            show_default=True,
            help="Seconds after which a trial is stopped and counts as failed.",
        ),
        _option("--trial-budget", type=click.FloatRange(0), help="Seconds after which no further trial begins."),
        _option("--no-energy", is_flag=True, help="Do not measure energy, which takes ten seconds per trial."),
        _option("--changes", is_flag=True, help="List the changes that can be tried, and exit."),
    ],
    ("attempt", "apply", "exact", "trial_seconds", "trial_limit", "trial_budget", "no_energy", "changes"),
)


def check_trial_options(trial: TrialOptions, output: Output, model: str | None, more: Sequence[str]) -> Output:
    """Where the report goes; fails on options that do not fit together, before any long work."""
    if more and not trial.tries:
        raise click.UsageError(f"unexpected argument {more[0]!r}: names of changes follow --try or --apply")
    if model is None and trial.tries:
        raise click.UsageError("Missing argument 'MODEL': write it before --try")
    if not trial.apply:
        return output
    if output.output is None:
        raise click.UsageError("--apply requires -o FILE: a script (.py), an exported program (.pt2) or a patch")
    from assay.api.apply import check_target

    check_target(trial.names(more), output.output)
    return replace(output, output=None)


def try_on(
    line: ProgressLine,
    report: CheckReport,
    source: str,
    inputs: Any,
    options: RunOptions,
    opened: Opened,
    wishes: AttemptOptions,
) -> CheckReport:
    """The report with the results of the trials."""
    from assay.api.attempt import attempt
    from assay.api.check import with_trials

    def show(progress: TrialProgress) -> None:
        stage = f"trying {progress.name}" if progress.name else "opening a copy of the model"
        line(Progress(stage, progress.number, progress.trials))

    found = attempt(source, inputs, options, wishes, opened=opened, findings=report.findings, on_progress=show)
    return with_trials(report, found)


def apply_verified(
    messages: Messages,
    trial: TrialOptions,
    more: Sequence[str],
    report: CheckReport,
    source: str,
    inputs: Any,
    options: RunOptions,
    opened: Opened,
    output: Output,
) -> int:
    """Write the changes that hold to the output file; 1 if none does."""
    from assay.api.apply import apply_changes
    from assay.errors import FINDINGS as FAILED_CHECK
    from assay.errors import OK

    names = changes_that_hold(messages, trial.names(more), report.trials)
    if not names:
        messages.warn("nothing was written: no change holds")
        return FAILED_CHECK
    assert output.output is not None
    messages.line.step(f"applying {', '.join(names)}")
    written = apply_changes(
        source,
        inputs,
        options,
        names,
        output.output,
        opened=opened,
        trials=report.trials,
        seconds=trial.trial_seconds,
        force=output.force,
    )
    messages.note(f"wrote {written.path}: {', '.join(written.changes)}")
    if written.path.suffix == ".pt2":
        messages.note("the exported program accepts only inputs of the shapes it was tried with")
    for name in written.left_out:
        messages.warn(f"{name} is not in {written.path}, which cannot contain it: write a script (.py)")
    return OK


def changes_that_hold(messages: Messages, names: Sequence[str], trials: Sequence[TrialResult]) -> list[str]:
    """The changes to write: of the best stack, or of each name the fastest one whose outputs hold."""
    from assay.api.attempt import BEST
    from assay.document.trials import FASTER, INCONCLUSIVE, SAME

    if BEST in names:
        final = [trial for trial in trials if trial.verdict == FASTER and not trial.against]
        return list(final[-1].changes) if final else []
    chosen: list[str] = []
    for name in names:
        own = [each for each in trials if _follows(each, name)]
        holding = [each for each in own if each.verdict in (FASTER, INCONCLUSIVE, SAME)]
        if not holding:
            reason = f"{own[0].verdict}{': ' * bool(own[0].detail)}{own[0].detail}" if own else "not tried"
            messages.warn(f"{name} is left out: {reason}")
            continue
        best = max(holding, key=lambda each: each.speedup.value or 0.0)
        if best.verdict != FASTER:
            messages.warn(f"{best.name} is included, although its verdict is {best.verdict!r}")
        chosen += [change for change in best.changes if change not in chosen]
    return chosen


def _follows(trial: TrialResult, name: str) -> bool:
    """Whether a trial is of the change, the stack or the rule with this name."""
    changes = {change for each in trial.changes for change in (each, each.partition("=")[0])}
    return name.upper() in trial.codes or all(part.strip() in changes for part in name.split("+"))
