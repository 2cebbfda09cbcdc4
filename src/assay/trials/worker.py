"""The child process: opens the model once, tries one stack of changes after the other, and appends what happened.

Whatever a candidate does to this process, the parent knows the results so far and which trial was running.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import msgspec
import torch
from msgspec.structs import replace

from assay.document.provenance import Figure
from assay.document.trials import FAILED, SKIPPED, TrialResult
from assay.errors import AssayError
from assay.messages import error_line, first_line
from assay.trials.carried import set_torch_settings
from assay.trials.change import NotApplicable
from assay.trials.compare import compare
from assay.trials.freed_memory import keep_freed_memory
from assay.trials.plan import (
    Begun,
    Broken,
    Emit,
    Ended,
    Expanded,
    StackTrial,
    TrialPlan,
    TrialSettings,
    append_event,
)
from assay.trials.stack import apply_stack, expanded, parse_spec, stack_codes, stack_effect
from assay.trials.subject import PreparedSubject, load_subject, prepare_subject

_WATCH_S = 1.0
"""Seconds between looks at whether the parent still exists."""
_OUT_OF_MEMORY = "ran out of memory"
_ALLOCATOR = ("can't allocate memory", "not enough memory")
"""Parts of the messages with which torch's allocator for the CPU fails; it raises a plain RuntimeError."""


def main() -> None:
    """Run the plan in the first argument, and append events to the file in the second."""
    plan_file, results = map(Path, sys.argv[1:])
    plan = msgspec.json.decode(plan_file.read_bytes(), type=TrialPlan)
    watch_parent(plan.parent, plan_file.parent)
    load = partial(load_subject, Path(plan.subject))
    set_torch_settings(plan.torch)
    for name in plan.modules:
        import_module(name)
    run(
        plan.trials,
        plan.settings,
        lambda: prepare_subject(load(), plan.settings, load),
        partial(append_event, results),
    )


def watch_parent(parent: int, directory: Path) -> None:
    """End this process, and delete the directory of the plan, as soon as its parent is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        shutil.rmtree(directory, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run(
    trials: Sequence[StackTrial], settings: TrialSettings, prepare: Callable[[], PreparedSubject], emit: Emit
) -> None:
    """Try each stack of changes on the model that `prepare` returns, and report each step to `emit`."""
    keep_freed_memory()
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the model were printed when it was checked
        try:
            prepared = prepare()
            several = [each for trial in trials for each in expanded(trial, prepared.original)]
        except Exception as error:  # noqa: BLE001  the user's code may raise anything
            emit(Broken(first_line(error) if isinstance(error, AssayError) else _reason(error)))
            return
        emit(Expanded(several))
        for number, trial in enumerate(several):
            emit(Begun(number))
            emit(Ended(number, attempt(trial, settings, prepared)))
            gc.collect()


def attempt(trial: StackTrial, settings: TrialSettings, prepared: PreparedSubject) -> TrialResult:
    """The result of one trial; whatever its changes raise is part of it."""
    effect, codes = stack_effect(trial.changes), stack_codes(trial.changes)
    blank = TrialResult(trial.changes, codes, trial.against, effect=effect)
    training = settings.backward or any(parse_spec(text).change.training for text in trial.changes)
    try:
        prepared.check_memory()
        base = apply_stack(prepared.fresh(), trial.against)
        copied = prepared.fresh()
        begin = time.perf_counter()
        changed = apply_stack(copied, trial.changes)
        applied = time.perf_counter() - begin
        result = compare(
            base,
            changed,
            effect=effect,
            training=training,
            seconds=settings.seconds,
            energy=settings.energy,
            seed=settings.seed,
        )
    except NotApplicable as error:
        return replace(blank, verdict=SKIPPED, detail=first_line(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  so may a change or the changed model
        return replace(blank, verdict=FAILED, detail=_reason(error))
    return replace(
        result,
        changes=trial.changes,
        codes=codes,
        against=trial.against,
        prepare=_longer(result.prepare, applied),
        detail="; ".join(filter(None, (result.detail, prepared.note))),
    )


def _longer(figure: Figure, seconds: float) -> Figure:
    return figure if figure.value is None else Figure(figure.value + seconds, figure.how)


def _reason(error: BaseException) -> str:
    """Why a trial failed, in one line."""
    memory = isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError))
    if memory or (isinstance(error, RuntimeError) and any(part in str(error) for part in _ALLOCATOR)):
        return _OUT_OF_MEMORY
    return first_line(error) if isinstance(error, AssayError) else error_line(error)
