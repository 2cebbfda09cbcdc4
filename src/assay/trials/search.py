"""The best stack of changes: try each alone, then add what helped, one at a time, as long as it still helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.document.trials import FASTER, TrialResult
from assay.trials.change import stack_order
from assay.trials.plan import StackTrial
from assay.trials.stack import change_name

LEAST_DB, LEAST_TOP1 = 20.0, 0.9
"""A change that leaves less signal, or other largest elements in more rows, is reported but not part of a stack."""

RunTrials = Callable[[Sequence[StackTrial]], list[TrialResult]]


@dataclass(frozen=True)
class StackSearch:
    """What a search for the best stack found, in the order in which it was tried."""

    alone: list[TrialResult]
    """Each change on its own, against the original."""
    steps: list[TrialResult]
    """Each stack with one more change, against the stack before; kept if it was faster."""
    final: TrialResult | None
    """The best stack against the original, measured once more; None if no change was faster."""

    @property
    def results(self) -> list[TrialResult]:
        """All results, the final stack last."""
        return [*self.alone, *self.steps, *([] if self.final is None else [self.final])]


def search_best(names: Sequence[str], run: RunTrials, run_final: RunTrials) -> StackSearch:
    """The fastest stack that adding one change at a time finds, starting with the one that helped most.

    `run` may refuse to try more once a budget is spent; `run_final` then still measures the stack found so far.
    """
    alone = run([StackTrial((name,)) for name in names])
    # A larger batch is another workload: its gain is reported, but it is not part of a stack.
    helped = [each for each in alone if each.verdict == FASTER and each.items == 1 and _acceptable(each)]
    steps: list[TrialResult] = []
    stack: tuple[str, ...] = ()
    for candidate in sorted(helped, key=_speedup, reverse=True):
        (name,) = candidate.changes
        if change_name(name) in map(change_name, stack):
            continue
        taller = tuple(stack_order((*stack, name)))
        if not stack:
            stack = taller
            continue
        step = run([StackTrial(taller, stack)])[0]
        steps.append(step)
        if step.verdict == FASTER and _acceptable(step):
            stack = taller
    final = run_final([StackTrial(stack)])[0] if stack else None
    return StackSearch(alone, steps, final)


def _acceptable(result: TrialResult) -> bool:
    """Whether outputs still resemble those of the original."""
    outputs = result.outputs
    if outputs is None:
        return True
    noisy = outputs.sqnr_db is not None and outputs.sqnr_db < LEAST_DB
    return not noisy and (outputs.top1 is None or outputs.top1 >= LEAST_TOP1)


def _speedup(result: TrialResult) -> float:
    return result.speedup.value or 0.0
