"""Times of a pass, its modules and its ops from rounds of clocked passes: all are sums of the same segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from assay.api.profile import conditions as judging
from assay.api.profile import figures
from assay.api.profile.op_times import document_rows
from assay.document.document import Document
from assay.document.machine import unknown_figure
from assay.document.profile import Conditions, KindTime
from assay.document.provenance import Figure, Measured, Provenance
from assay.document.timing import ModuleTime, Timing
from assay.document.tree import modules_around
from assay.timing.bench import undisturbed
from assay.timing.device import now, processor_now
from assay.timing.module_clock import clock_cost_ns
from assay.timing.op_clock import stamp_cost_ns
from assay.timing.rounds import ClockedPass, Rounds, comparable
from assay.timing.segments import Chain, Estimates, Matrix, SegmentedPasses, Span, low_quartile

_ENOUGH = 0.25
"""On a busy machine, CPU times are used if a smaller share of the passes was undisturbed."""


class PassTimes:
    """The times of one pass of `document`, on the clock of the host.

    On a busy machine, they are those of its undisturbed passes. If there are too few, they are the CPU times of a
    single-threaded pass; otherwise they are unknown, and only shares are kept.
    """

    def __init__(self, rounds: Rounds, document: Document, others: float | None) -> None:
        self._rounds, self._document = rounds, document
        judged = judging.judge(rounds, others)
        modules, ops = _used(rounds.modules, judged), _used(rounds.ops, judged)
        calm = _calm(modules) and _calm(ops)
        enough = calm and len(modules) >= _ENOUGH * len(rounds.modules) and len(ops) >= _ENOUGH * len(rounds.ops)
        self._by_processor = not enough and judging.processor_time_stands(rounds, judged)
        if self._by_processor:
            modules, ops = comparable(rounds.processor), comparable(rounds.ops)
        self._modules = modules
        self._ops = [each for each in ops if each.events.modules == modules[0].events.modules]
        withheld = bool(judged.busy) and not calm and not self._by_processor
        rates = "processor" if self._by_processor else "" if withheld else "time"
        self.conditions: Conditions = replace(judged, withheld=withheld, rates=rates)

    @property
    def whole(self) -> Figure:
        """Seconds of the pass until the model returned."""
        return self._figure(self._whole)

    @property
    def paths(self) -> str:
        """How many of the passes had the most frequent sequence of events; empty if all had the same."""
        alike, every = len(comparable(self._rounds.modules)), len(self._rounds.modules)
        return "" if alike == every else f"the {alike} of {every} passes with the most frequent sequence of calls"

    @property
    def in_ops(self) -> Figure:
        """The share of the pass that is spent in ops."""
        if not self._ops:
            return unknown_figure("the ops of the timed passes differ")
        inside = self._estimates.ops(range(len(self._ops[0].ops))).ns
        return Figure(inside / self._whole.ns, self.measured) if self._whole.ns else unknown_figure("no time passed")

    @property
    def overheads(self) -> dict[str, Figure]:
        """The CPU time of passes with clocked modules and with clocked ops, each divided by that of bare passes."""
        bare = [each.process for each in self._rounds.bare]
        kinds = {"module clock": self._rounds.modules, "operation clock": self._rounds.ops}
        return {name: figures.ratio([each.clock.process for each in passes], bare) for name, passes in kinds.items()}

    def timing(self) -> Timing:
        """The times of the pass and its modules."""
        return Timing(
            modules=[self._module(index) for index in range(len(self._document.modules))],
            whole=self.whole,
            outside=self._figure(self._estimates.outside()),
            overhead=self.overheads["module clock"],
            as_run=figures.median_of([each.wall for each in self._rounds.bare]),
            columns={
                **self.columns("modules", ModuleTime, "calls", "device_total_s", "device_self_s", "gap_s"),
                "modes": Measured(figures.AS_RUN),
            },
        )

    def kinds(self) -> list[KindTime | None]:
        """The time of each kind of op of the document; None for a kind whose ops were not timed."""
        by_kind: dict[int, list[int]] = {}
        for number, row in enumerate(self._rows):
            by_kind.setdefault(self._document.ops[row].kind, []).append(number)
        in_ops = self._estimates.ops(range(len(self._rows))).ns
        kinds: list[KindTime | None] = [None] * len(self._document.kinds)
        for kind, numbers in by_kind.items():
            span = self._estimates.ops(numbers)
            low, high = self._range(span)
            total = self._seconds(span)
            kinds[kind] = KindTime(
                count=len(numbers),
                time_s=None if total is None else total / len(numbers),
                total_s=total,
                low_s=low,
                high_s=high,
                share=span.ns / in_ops if in_ops else None,
                processor_s=self._processor_s(numbers),
            )
        return kinds

    def ops(self) -> list[float | None]:
        """The seconds of each op of the document; None for an op that was not timed."""
        times: list[float | None] = [None] * len(self._document.ops)
        for number, row in enumerate(self._rows):
            times[row] = self._seconds(self._estimates.ops([number]))
        return times

    def columns(self, rows: str, row: type[Struct], *without: str) -> dict[str, Provenance]:
        """How the columns of the list `rows` were obtained, by list and name."""
        return {f"{rows}.{name}": self.measured for name in row.__struct_fields__ if name not in without}

    @cached_property
    def measured(self) -> Measured:
        """How times were obtained."""
        by = figures.PROCESSOR_SEGMENTS if self._by_processor else figures.SEGMENTS
        return Measured(by, len(self._modules))

    @cached_property
    def _whole(self) -> Span:
        return self._estimates.whole()

    @cached_property
    def _rows(self) -> list[int]:
        """The document's op of each timed op; empty if the document has other ops."""
        return document_rows([op.func for op in self._ops[0].ops], self._document) if self._ops else []

    @cached_property
    def _processor(self) -> Matrix:
        """CPU nanoseconds of each timed op in each pass."""
        samples = np.array([[op.processor_ns for op in each.ops] for each in self._ops], float)
        corrected: Matrix = np.maximum(samples.reshape(len(self._ops), -1) - stamp_cost_ns(), 0.0)
        return corrected

    @cached_property
    def _estimates(self) -> Estimates:
        chains = self._modules[0].events.chains()
        segments = self._ops[0].op_segments if self._ops else []
        elapsed = np.array([[op.wall_ns for op in each.ops] for each in self._ops], float)
        ops = self._processor if self._by_processor else elapsed
        passes = SegmentedPasses(
            segments=np.array([each.durations for each in self._modules]),
            chains=chains,
            ops=ops.reshape(len(self._ops), len(segments)),
            op_segments=np.array(segments, np.intp),
            op_chains=self._op_chains([chains[segment] for segment in segments]),
            clock_ns=clock_cost_ns(processor_now if self._by_processor else now),
        )
        return Estimates(passes)

    def _op_chains(self, around: Sequence[Chain]) -> list[Chain]:
        """The modules around each op: those of its recorded calls, which also know calls without `__call__`."""
        if not self._rows:
            return list(around)
        recorded = [modules_around(self._document.ops[row].call, self._document.calls) for row in self._rows]
        return [
            calls if _is_subsequence(chain, calls) else chain for calls, chain in zip(recorded, around, strict=True)
        ]

    @cached_property
    def _calls(self) -> Mapping[int, int]:
        """The number of calls of each module."""
        recorded = Counter(call.module for call in self._document.calls)
        clocked = Counter(module for module in self._modules[0].events.modules if module is not None and module >= 0)
        return {**recorded, **clocked}

    def _module(self, index: int) -> ModuleTime | None:
        if not self._calls.get(index):
            return None
        if not self._estimates.knows(index):  # it was called where no clock sees calls, such as inside TorchScript
            return ModuleTime(self._calls[index], None, None)
        own, total = self._estimates.own(index), self._estimates.total(index)
        low, high = self._range(total)
        has_own = self._estimates.owns(index)
        return ModuleTime(
            calls=self._calls[index],
            total_s=self._seconds(total),
            self_s=self._seconds(own) if has_own else None,
            low_s=low,
            high_s=high,
            total_share=total.ns / self._whole.ns if self._whole.ns else None,
            self_share=own.ns / self._whole.ns if self._whole.ns and has_own else None,
        )

    def _processor_s(self, numbers: Sequence[int]) -> float | None:
        if not self.conditions.single_threaded:
            return None
        return float(low_quartile(self._processor[:, list(numbers)]).sum()) / 1e9

    def _seconds(self, span: Span) -> float | None:
        return None if self.conditions.withheld else span.ns / 1e9

    def _range(self, span: Span) -> tuple[float | None, float | None]:
        return (None, None) if self.conditions.withheld else figures.range_s(span) or (None, None)

    def _figure(self, span: Span) -> Figure:
        if self.conditions.withheld:
            return unknown_figure(judging.MACHINE_BUSY)
        return figures.of_span(span, self.measured.by, self.measured.repeats)


def _used(passes: Sequence[ClockedPass], conditions: Conditions) -> list[ClockedPass]:
    """The passes with the same events; on a busy machine, only undisturbed ones if there are any."""
    alike = comparable(passes)
    return [each for each in alike if conditions.busy and undisturbed(each.clock)] or alike


def _calm(passes: Sequence[ClockedPass]) -> bool:
    return all(undisturbed(each.clock) for each in passes)


def _is_subsequence(part: Chain, whole: Chain) -> bool:
    rest = iter(whole)
    return all(module in rest for module in part)
