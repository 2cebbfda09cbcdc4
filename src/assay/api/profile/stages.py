"""The stages of a profile and the time they may take: each gets an equal share of what is left of the budget."""

from __future__ import annotations

import time
from collections.abc import Callable

from assay.api.options import OnProgress, Progress
from assay.timing.bench import Budget

LEAST = 3
"""The fewest timed passes of a stage, unless they take more than twice its time."""


class Stages:
    """Announces stages and divides the time budget among them."""

    def __init__(
        self,
        count: int,
        budget_s: float | None,
        on_progress: OnProgress,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._count, self._budget_s, self._on_progress, self._clock = count, budget_s, on_progress, clock
        self._number = self._repeats = 0
        self._stage = ""
        self._start_s = clock()
        self.skipped: list[str] = []
        """The stages for which no time was left."""

    @property
    def left_s(self) -> float | None:
        """Seconds left of the budget; None without a budget."""
        return None if self._budget_s is None else max(self._budget_s - (self._clock() - self._start_s), 0.0)

    def begin(self, stage: str, *, least_s: float = 0.0, required: bool = False) -> bool:
        """Announce a stage; False if it must be skipped because no time is left, or less than `least_s`."""
        self._number += 1
        self._count = max(self._count, self._number)
        left = self.left_s
        if left is not None and left <= least_s and not required:
            self.skipped.append(stage)
            return False
        self._stage, self._repeats = stage, 0
        self._report(stage, left)
        return True

    def report(self, part: str) -> None:
        """Report a part of the current stage by its own name."""
        self._report(part, self.left_s)

    def _report(self, stage: str, left_s: float | None, repeats: int = 0) -> None:
        unit = "repeat" if repeats else ""
        self._on_progress(Progress(stage, self._number, self._count, left_s, repeats, None, unit))

    def on_repeat(self) -> None:
        """Count a repeat of the current stage."""
        self._repeats += 1
        self._report(self._stage, self.left_s, self._repeats)

    def share_s(self, most_s: float) -> float:
        """Seconds that the current stage may take, at most `most_s`."""
        left = self.left_s
        return most_s if left is None else min(most_s, left / (self._count - self._number + 1))

    def budget(self, warmup: int, passes: int | None, most_s: float) -> Budget:
        """The passes of the current stage: exactly `passes`, or as many as its time allows."""
        if passes is not None:
            return Budget(warmup, passes, passes, 0.0, on_repeat=self.on_repeat)
        return Budget(warmup, LEAST, seconds=self.share_s(most_s), on_repeat=self.on_repeat)
