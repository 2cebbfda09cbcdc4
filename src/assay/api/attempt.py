"""Trying changes on copies of a model: which ones, how they are measured, and the search for the best stack."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.api.arguments import check_flag, check_number
from assay.api.observe import check_can_run
from assay.api.options import RunOptions
from assay.document.findings import Finding
from assay.document.trials import LOSSY, TrialResult
from assay.errors import UsageError
from assay.findings.catalogue import rules
from assay.messages import name_suggestion, one_line
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.trials.change import changes, stack_order
from assay.trials.plan import OnTrial, StackTrial, TrialSettings
from assay.trials.search import search_best
from assay.trials.stack import parse_spec

if TYPE_CHECKING:
    from assay.trials.runs import TrialRun

SECONDS = 10.0
"""Seconds to measure per trial."""
LIMIT_S = 300.0
"""Seconds after which a trial is stopped; compiling a large model takes minutes."""
_CODE = re.compile("[A-Z][0-9]{0,3}")
BEST, ALL = "best", "all"
"""Names that stand for the search of the best stack, and for every change."""


@dataclass(frozen=True)
class AttemptOptions:
    """What to try, and for how long."""

    names: tuple[str, ...] | None = None
    """Changes, stacks of them (`channels_last+compile`), codes of rules, or `all`; `best` searches the fastest stack
    of all changes, or of the others that are named. None for the changes that follow the advice of the findings."""
    exact: bool = False
    """Leave out changes that lose precision on purpose."""
    seconds: float = SECONDS
    """Seconds to measure per trial."""
    limit_s: float = LIMIT_S
    """Seconds after which a trial is stopped and counts as failed."""
    budget_s: float | None = None
    """Seconds after which no further trial begins, except for the last one of a search; None for no limit."""
    energy: bool = True
    """Measure energy where a sensor covers the device."""

    def check(self) -> None:
        """Raise UsageError for a name or value that is not valid, before any long work."""
        check_flag("exact", self.exact)
        check_flag("energy", self.energy)
        check_number("seconds", self.seconds, 0)
        check_number("limit_s", self.limit_s, 0)
        check_number("budget_s", self.budget_s, 0, optional=True)
        for name in chosen_changes(self.names):
            lossy = [part for part in name.split("+") if parse_spec(part).change.effect == LOSSY]
            if self.exact and lossy and name in (self.names or ()):
                raise UsageError(f"{', '.join(lossy)} loses precision on purpose: remove it, or leave out exact")

    @property
    def searches(self) -> bool:
        """Whether the best stack is searched for."""
        return self.names is not None and BEST in self.names


def attempt(
    source: Any,
    inputs: Any,
    options: RunOptions,
    wishes: AttemptOptions,
    *,
    opened: Opened | None = None,
    findings: Iterable[Finding] = (),
    on_progress: OnTrial | None = None,
) -> list[TrialResult]:
    """Try changes on copies of a model, and return the results.

    Args:
        source: The model as it was given; text can be opened again in another process.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        options: How to open and run the model.
        wishes: What to try, and for how long.
        opened: The source, if it is open already.
        findings: The findings about the model.
        on_progress: Called several times per second while trials run.

    Returns:
        One result per change and value; changes that need a process of their own come last. After a search, the steps
        of the stack and, as the last one, the best stack against the original.

    Raises:
        UsageError: A name is unknown, or the model cannot be run with these options.
    """
    wishes.check()
    names = [name for name in chosen_changes(wishes.names, findings) if _fits(name, wishes, options)]
    run = _trial_run(source, inputs, options, opened, wishes, on_progress)
    timed = run.before(None if wishes.budget_s is None else time.monotonic() + wishes.budget_s)
    if wishes.searches:
        return search_best(names, timed.results, run.results).results
    return timed.results([StackTrial(tuple(stack_order(name.split("+")))) for name in names]) if names else []


def check_can_try(opened: Opened) -> None:
    """Raise UsageError for a trace, before it is read; TrustError for a file whose code would run."""
    if opened.traced is not None:
        location = one_line(opened.origin.location)
        raise UsageError(f"traces cannot be tried: {location} has no model to change; give the model itself")
    if opened.interpreted:
        opened.with_weights.model  # noqa: B018


def _fits(name: str, wishes: AttemptOptions, options: RunOptions) -> bool:
    """Whether a change is to be tried: not if it loses precision, or is about training in a search for inference."""
    parts = [parse_spec(part).change for part in name.split("+")]
    lossy = wishes.exact and any(part.effect == LOSSY for part in parts)
    other = wishes.searches and not options.backward and any(part.training for part in parts)
    return not lossy and not other


def chosen_changes(names: Sequence[str] | None, findings: Iterable[Finding] = ()) -> list[str]:
    """The changes that `names` stand for, each once; with None, those that follow the advice of the findings."""
    if names is None:
        codes = {finding.code for finding in findings}
        return [change.name for change in changes() if codes.intersection(change.codes)]
    given = [name for name in names if name != BEST]
    if ALL in given or not given:
        return [change.name for change in changes()]
    return list(dict.fromkeys(each for name in given for each in _named(name)))


def _named(name: str) -> list[str]:
    """The changes that one name stands for."""
    code = name.strip().upper()
    if _CODE.fullmatch(code):
        return _following(code)
    known = [change.name for change in changes()]
    for part in name.split("+"):
        plain = part.partition("=")[0].strip()
        if plain not in known:
            raise UsageError(f"unknown change {plain!r}: {name_suggestion(plain, known)}")
        parse_spec(part.strip())  # raises for a value that is not valid
    return ["+".join(part.strip() for part in name.split("+"))]


def _following(code: str) -> list[str]:
    """The changes that follow the advice of the rules whose code starts with `code`."""
    if not any(rule.code.startswith(code) for rule in rules()):
        raise UsageError(f"unknown rule code {code!r}: `assay rule` lists all rules")
    following = [change.name for change in changes() if any(each.startswith(code) for each in change.codes)]
    if not following:
        automatic = sorted({each for change in changes() for each in change.codes})
        raise UsageError(f"no change follows the advice of {code} automatically: choose from {', '.join(automatic)}")
    return following


def _trial_run(
    source: Any,
    inputs: Any,
    options: RunOptions,
    opened: Opened | None,
    wishes: AttemptOptions,
    on_progress: OnTrial | None,
) -> TrialRun:
    """The run of trials of this model; raises if it cannot be run with these options."""
    if options.without_data or str(options.device) == "meta":
        raise UsageError("changes are measured on passes with data: remove the meta or fake mode")
    opened = opened or open_source(source, model_args=options.model_args, trust=options.trust)
    check_can_run(opened, options)
    from assay.trials.runs import TrialRun
    from assay.trials.subject import TrialSubject

    text = isinstance(source, (str, os.PathLike))
    given = (os.fspath(source), inputs, options.model_args, options.trust) if text else (opened, inputs)
    settings = TrialSettings(
        None if options.device is None else str(options.device),
        options.dtype,
        options.training,
        options.backward,
        wishes.seconds,
        wishes.limit_s,
        wishes.energy,
    )
    return TrialRun(TrialSubject(*given), settings, on_progress)
