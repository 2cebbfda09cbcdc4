"""Matching of timed ops with those of a document, and times of ops that were recorded while they were timed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from assay.api.profile import figures
from assay.document.document import Document
from assay.document.profile import KindTime
from assay.document.rows import OpKind
from assay.document.tree import modules_around
from assay.recorder.kinds import target_of
from assay.timing.op_clock import BODIES
from assay.timing.rounds import TimedPass
from assay.timing.segments import Chain, Estimates, SegmentedPasses, Span


def document_rows(funcs: Sequence[Any], document: Document) -> list[int]:
    """The index in `document.ops` of each op that ran; empty if the document has other ops or another order."""
    rows = [row for row, op in enumerate(document.ops) if document.kinds[op.kind].target not in BODIES]
    recorded = [document.kinds[document.ops[row].kind].target for row in rows]
    return rows if recorded == [target_of(func) for func in funcs] else []


class RecordedOps:
    """The times of the ops of one phase, from passes that were recorded at the same time."""

    def __init__(self, timed: TimedPass, phase: str = "forward") -> None:
        self._timed = timed
        self.numbers = [
            number
            for number, op in enumerate(timed.shown.ops)
            if op.phase == phase and all(times[number] is not None for times in timed.times)
        ]

    def whole(self) -> Span:
        """All ops together."""
        return self._estimates.whole()

    def outside(self) -> Span:
        """The ops outside any module."""
        return self._estimates.outside()

    def own(self, module: int) -> Span | None:
        """The module's own ops; None if it has none."""
        return self._estimates.own(module) if module in self._with_ops else None

    def total(self, module: int) -> Span:
        """The ops of a module and its submodules."""
        return self._estimates.total(module)

    def kinds(self, kinds: Sequence[OpKind]) -> list[KindTime | None]:
        """The times in the order of `kinds`, those of a document; None for a kind that did not run."""
        by_kind: dict[int, list[int]] = defaultdict(list)
        for position, number in enumerate(self.numbers):
            by_kind[self._timed.shown.ops[number].kind].append(position)
        whole = self.whole().ns
        rows: list[KindTime | None] = [None] * len(kinds)
        for index, positions in by_kind.items():
            row = _index_of(self._timed.shown.kinds[index], index, kinds)
            span = self._estimates.ops(positions)
            low, high = figures.range_s(span) or (None, None)
            if row is not None:
                total = span.ns / 1e9
                share = span.ns / whole if whole else None
                rows[row] = KindTime(
                    len(positions),
                    total / len(positions),
                    total,
                    low,
                    high,
                    share,
                    kernels=self._kernels(positions),
                )
        return rows

    def _kernels(self, positions: Sequence[int]) -> int | None:
        """The number of kernels of the ops at these positions; None on a CPU."""
        launched = self._timed.kernels
        return sum(launched[self.numbers[position]] or 0 for position in positions) if launched else None

    def seconds(self) -> list[float | None]:
        """The time of each op of the recorded pass; None for ops of another phase."""
        seconds: list[float | None] = [None] * len(self._timed.shown.ops)
        for position, number in enumerate(self.numbers):
            seconds[number] = self._estimates.ops([position]).ns / 1e9
        return seconds

    @cached_property
    def _chains(self) -> list[Chain]:
        shown = self._timed.shown
        return [modules_around(shown.ops[number].call, shown.calls) for number in self.numbers]

    @cached_property
    def _with_ops(self) -> set[int]:
        return {chain[-1] for chain in self._chains if chain}

    @cached_property
    def _estimates(self) -> Estimates:
        times = np.array([[times[number] for number in self.numbers] for times in self._timed.times], float)
        ops = times.reshape(len(self._timed.times), len(self.numbers))
        none = np.zeros((len(ops), 1))
        return Estimates(SegmentedPasses(none, [()], ops, np.zeros(len(self.numbers), np.intp), self._chains))


def kernels_of(times: Sequence[KindTime | None]) -> int | None:
    """The number of kernels of a pass; None if it is unknown."""
    known = [time.kernels for time in times if time is not None and time.kernels is not None]
    return sum(known) if known else None


def _index_of(kind: OpKind, index: int, kinds: Sequence[OpKind]) -> int | None:
    """The index of this kind in the document, tried at `index` first; None if the document does not have it."""
    if index < len(kinds) and kinds[index] == kind:
        return index
    return next((at for at, other in enumerate(kinds) if other == kind), None)
