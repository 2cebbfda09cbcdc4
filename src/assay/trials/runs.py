"""Running trials from the parent's side: children are started and followed, and what goes wrong becomes a result."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace as with_fields

from assay.document.trials import FAILED, UNTRIED, TrialResult
from assay.recorder import inventory
from assay.recorder.guard import unchanged
from assay.sources.opened import Opened
from assay.timing.settings import threads
from assay.trials import worker
from assay.trials.carried import torch_settings
from assay.trials.children import TrialChild, ending, fork, kill, spawn
from assay.trials.plan import (
    Begun,
    Broken,
    Ended,
    EventReader,
    Expanded,
    OnTrial,
    StackTrial,
    TrialEvent,
    TrialPlan,
    TrialProgress,
    TrialSettings,
    append_event,
)
from assay.trials.stack import is_isolated, parse_spec, stack_codes, stack_effect
from assay.trials.subject import NotPortable, TrialSubject, prepare_subject, save_subject

_POLL_S = 0.1
_OWN_CHANGES = "assay.trials.changes."


class _Launch(NamedTuple):
    """A way to start a child."""

    start: Callable[[Sequence[StackTrial], Path], TrialChild]
    """Starts a child that runs these trials and appends its events to this file."""
    fresh: bool
    """Whether it is a fresh interpreter, to which the model must be sent."""


@dataclass(frozen=True)
class TrialRun:
    """Trials of one model: how they are measured, and who is informed."""

    subject: TrialSubject
    settings: TrialSettings
    on_progress: OnTrial | None = None
    deadline: float | None = None
    """The time by `time.monotonic` after which no further trial begins; None for no such time."""

    def results(self, trials: Sequence[StackTrial]) -> list[TrialResult]:
        """One result per trial, and per value of a change that takes several; isolated changes come last."""
        with tempfile.TemporaryDirectory(prefix="assay-trials-") as directory:
            launches = list(_launches(self, trials, Path(directory)))
            done: list[TrialResult] = []
            left = len(trials)
            for batch in _batches(trials):
                left -= len(batch)
                done += _batch(self, batch, launches, Path(directory), (len(done), left))
            return done

    def before(self, deadline: float | None) -> TrialRun:
        """The same run with a deadline."""
        return replace(self, deadline=deadline)

    @property
    def over(self) -> bool:
        """Whether no further trial may begin."""
        return self.deadline is not None and time.monotonic() >= self.deadline


class _CannotOpen(Exception):
    """Raised if a child cannot open the model; `raised` if it gave the reason, and did not break."""

    def __init__(self, why: str, *, raised: bool) -> None:
        super().__init__(why)
        self.raised = raised


def _batches(trials: Sequence[StackTrial]) -> Iterator[list[StackTrial]]:
    """The trials that share a child, then those that need one of their own."""
    alone = [is_isolated((*trial.changes, *trial.against)) for trial in trials]
    together = [trial for trial, isolated in zip(trials, alone, strict=True) if not isolated]
    yield from [together] if together else []
    yield from ([trial] for trial, isolated in zip(trials, alone, strict=True) if isolated)


def _launches(run: TrialRun, trials: Sequence[StackTrial], directory: Path) -> Iterator[_Launch]:
    """The ways to start a child, best first; none if trials can only run in this process."""
    subject, settings = run.subject, run.settings
    try:
        modules = _modules(trials)
        save_subject(subject, directory / "subject.pt")
    except NotPortable:
        pass
    else:
        plan = partial(
            TrialPlan, str(directory / "subject.pt"), settings=settings, parent=os.getpid(), modules=modules
        )
        settings_of_torch = torch_settings()
        yield _Launch(lambda some, to: spawn(plan(trials=list(some), torch=settings_of_torch), directory, to), True)
    if hasattr(os, "fork") and not torch.cuda.is_initialized():
        yield _Launch(lambda some, to: fork(partial(_forked, run, list(some), to, os.getpid()), to), False)


def _modules(trials: Sequence[StackTrial]) -> list[str]:
    """The modules that register changes of these trials and are not part of Assay."""
    specs = [parse_spec(text) for trial in trials for text in (*trial.changes, *trial.against)]
    modules = {spec.change.apply.__module__ for spec in specs}
    if "__main__" in modules:
        raise NotPortable("a change is defined in __main__")
    return sorted(name for name in modules if not name.startswith(_OWN_CHANGES))


def _forked(run: TrialRun, trials: list[StackTrial], results: Path, parent: int) -> None:
    worker.watch_parent(parent, results.parent)
    prepare = partial(prepare_subject, run.subject, run.settings, None)
    worker.run(trials, run.settings, prepare, partial(append_event, results))


def _batch(
    run: TrialRun, batch: list[StackTrial], launches: list[_Launch], directory: Path, others: tuple[int, int]
) -> list[TrialResult]:
    """The results of trials that share a child, or several in turn if one breaks.

    `others` are the numbers of trials before and after them.
    """
    results: list[TrialResult] = []
    while batch and not run.over:
        if not launches:
            return [*results, *_here(run, batch)]
        events = directory / f"{len(list(directory.glob('*.jsonl')))}.jsonl"
        events.touch()
        try:
            ended, batch = _Follower(run, batch, others[0] + len(results), others[1]).follow(launches[0], events)
        except _CannotOpen as error:
            if run.subject.is_text or not (error.raised and launches[0].fresh):
                return [*results, *(_without_trial(trial, FAILED, str(error)) for trial in batch)]
            del launches[0]  # the model could not be loaded there, but a fork has it already
        else:
            results += ended
    return [*results, *(_without_trial(trial, UNTRIED, "the time budget is spent") for trial in batch)]


class _Follower:
    """Follows the events of one child until it ends, breaks or takes too long."""

    def __init__(self, run: TrialRun, trials: list[StackTrial], before: int, after: int) -> None:
        self._run, self._trials = run, trials
        self._before, self._after = before, after
        self._results: list[TrialResult] = []
        self._open = False
        self._running: int | None = None
        self._since = time.monotonic()
        self._stopped = False

    def follow(self, launch: _Launch, results: Path) -> tuple[list[TrialResult], list[StackTrial]]:
        """The results of the trials that began in this child, and the trials that are left."""
        child = launch.start(self._trials, results)
        try:
            events = EventReader(results)
            code = self._wait(child, events)
        finally:
            kill(child)
        left = self._trials[len(self._results) :]
        if self._stopped or not left:
            return self._results, left
        why = ending(code, results) if code is not None else f"did not end within {self._run.settings.limit_s:g} s"
        if self._running is not None:
            return [*self._results, _without_trial(left[0], FAILED, why)], left[1:]
        if self._results:  # it broke between two trials: another child goes on
            return self._results, left
        raise _CannotOpen(f"the process that opens the model {why}", raised=False)

    def _wait(self, child: TrialChild, events: EventReader) -> int | None:
        """The child's exit code; None if it is still running and need not or must not go on."""
        while True:
            code = child.poll()  # before the events, which are complete once it has ended
            for event in events.new():
                self._take(event)
            finished = self._open and len(self._results) == len(self._trials)
            late = time.monotonic() - self._since > self._run.settings.limit_s
            self._stopped = self._began_too_late()
            if code is not None or finished or late or self._stopped:
                return code
            self._report()
            time.sleep(_POLL_S)

    def _began_too_late(self) -> bool:
        """Whether the deadline had passed when the last trial ended or the one in progress began."""
        deadline = self._run.deadline
        return self._open and deadline is not None and self._since >= deadline

    def _take(self, event: TrialEvent) -> None:
        self._since = time.monotonic()
        if isinstance(event, Expanded):
            self._trials, self._open = event.trials, True
        elif isinstance(event, Begun):
            self._running = event.trial
        elif isinstance(event, Ended):
            self._results.append(event.result)
            self._running = None
        elif isinstance(event, Broken):
            raise _CannotOpen(event.why, raised=True)

    def _report(self) -> None:
        if self._run.on_progress is None:
            return
        name = "" if self._running is None else self._trials[self._running].name
        number = self._before + min(len(self._results) + 1, len(self._trials))
        trials = self._before + len(self._trials) + self._after
        self._run.on_progress(TrialProgress(number, trials, name, time.monotonic() - self._since))


def _here(run: TrialRun, trials: list[StackTrial]) -> list[TrialResult]:
    """The results of trials in this process, on a copy of the model, if there is no other way."""
    source: Any = run.subject.source
    module = source.with_weights.module if isinstance(source, Opened) else source
    ended: list[TrialEvent] = []
    with threads(None), unchanged(*inventory.members(module)):
        copied = prepare_subject(replace(run.subject, source=module), TrialSettings(training=None), None).fresh()
        subject = replace(run.subject, source=copied.model, inputs=(copied.args, copied.kwargs))
        worker.run(trials, run.settings, partial(prepare_subject, subject, run.settings, None), ended.append)
    for event in ended:
        if isinstance(event, Broken):
            return [_without_trial(trial, FAILED, event.why) for trial in trials]
    results = [event.result for event in ended if isinstance(event, Ended)]
    return [with_fields(each, detail="; ".join(filter(None, (each.detail, _IN_PROCESS)))) for each in results]


_IN_PROCESS = "tried in this process, because the model cannot be sent to another"


def _without_trial(trial: StackTrial, verdict: str, detail: str) -> TrialResult:
    """A result without measurements."""
    return TrialResult(
        trial.changes,
        stack_codes(trial.changes),
        trial.against,
        verdict=verdict,
        detail=detail,
        effect=stack_effect(trial.changes),
    )
