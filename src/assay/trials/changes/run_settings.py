"""Settings of the process that a pass runs under: inference mode and the number of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from assay.document.trials import EXACT, ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import DRY_PASS, DRY_PASS_IMPORTS, device_of
from assay.trials.runnable import Runnable


def inference_mode(runnable: Runnable) -> Runnable:
    """The model run under torch.inference_mode."""
    if torch.inference_mode in runnable.contexts:
        raise NotApplicable("the model runs in inference mode already")
    runnable.contexts = (torch.inference_mode, *runnable.contexts)
    return runnable


@contextmanager
def thread_count(count: int) -> Iterator[None]:
    """Within it, torch uses this number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def thread_counts(runnable: Runnable) -> list[int]:
    """Thread counts worth trying: 1, 2, half of the processors and all, without the current count."""
    if device_of(runnable) != "cpu":
        raise NotApplicable("the model does not run on the CPU")
    every = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    counts = {1, min(2, every), max(every // 2, 1), every} - {torch.get_num_threads()}
    if not counts:
        raise NotApplicable("this machine has only one processor")
    return sorted(counts)


def threads(runnable: Runnable, value: int | None = None) -> Runnable:
    """The model run with `value` threads, or else with the largest number that differs from the current one."""
    counts = thread_counts(runnable)
    if value == torch.get_num_threads():
        raise NotApplicable(f"torch uses that many threads already ({value})")
    runnable.contexts += (partial(thread_count, counts[-1] if value is None else value),)
    return runnable


register(
    Change(
        name="inference_mode",
        summary="Run passes under torch.inference_mode instead of torch.no_grad",
        codes=("C216",),
        effect=EXACT,
        apply=inference_mode,
        stage="setting",
    )
)
register(
    Change(
        name="threads",
        summary="Use another number of threads: 1, 2, half of the processors or all",
        codes=("C214",),
        effect=ROUNDING,
        apply=threads,
        parts=(*DRY_PASS, thread_count, thread_counts),
        imports=(*DRY_PASS_IMPORTS, "import os", "from functools import partial"),
        stage="process",
        options=thread_counts,
    )
)
