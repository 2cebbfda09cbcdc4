"""Samples for scaling formulas: from one capture, the value of every quantity and what each op adds to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from assay.analysis.cost import cost_of
from assay.analysis.cost.totals import add_up
from assay.analysis.laws.polynomials import Sizes
from assay.analysis.memory import lifetimes
from assay.document.cost import CostTotals, KindCost
from assay.document.document import Document
from assay.document.rows import Op, OpKind


class PhaseOps(Struct, frozen=True):
    """The ops of one phase, in order."""

    kinds: list[OpKind]
    costs: list[KindCost]
    """In the order of `kinds`."""
    ops: list[int]
    """The kind of each execution."""
    live: list[int]
    """Bytes of live tensors during each op, without parameters, buffers and inputs."""
    totals: CostTotals


class SizeSample(Struct, frozen=True):
    """The result of one capture at given sizes."""

    sizes: Sizes
    forward: PhaseOps
    backward: PhaseOps | None
    """Ops of the backward pass; `live` covers the whole training step."""
    cache_bytes: int | None


class Quantity(Struct, frozen=True):
    """A cost that scales with the sizes: its title, how to read its value, and how ops add up to it."""

    title: str
    value_of: Callable[[SizeSample], int | None]
    phase: str = "forward"
    column: str | None = None
    """The column of `KindCost` that each op adds, if it is a sum over ops."""
    peak: bool = False
    """Whether it is a peak: the maximum over time."""

    def unknown(self, sample: SizeSample) -> bool:
        """Whether the phase ran but the value is unknown, because no op has a cost formula."""
        return self.column is not None and getattr(sample, self.phase) is not None and self.value_of(sample) is None


def sample(sizes: Sizes, document: Document) -> SizeSample:
    """The sample that a captured document gives at its sizes."""
    cost = document.cost or add_up(document)
    live = _live(lifetimes.forward(document))
    forward = PhaseOps(document.kinds, cost.kinds, _kinds(document.ops), live, cost.forward)
    cache = document.run.cache
    return SizeSample(sizes, forward, _backward(document, cost.backward), None if cache is None else cache.bytes)


class MatchedOps(Struct, frozen=True):
    """The ops of several traces, matched by position."""

    matched: Counter[tuple[int, ...]]
    """How often each combination of kinds, one per trace, occurs at the same position."""
    unmatched: list[Counter[int]]
    """Per trace, executions of each kind whose op cannot be matched, since the traces ran it unequally often."""


def match_ops(traces: Sequence[PhaseOps]) -> MatchedOps:
    """The ops of all traces, matched by their position among the ops with the same target."""
    by_target = [_by_target(trace) for trace in traces]
    matched: Counter[tuple[int, ...]] = Counter()
    unmatched: list[Counter[int]] = [Counter() for _ in traces]
    for target in dict.fromkeys(target for each in by_target for target in each):
        columns = [each.get(target, []) for each in by_target]
        if len({len(column) for column in columns}) == 1:
            matched.update(zip(*columns, strict=True))
        else:
            for counter, column in zip(unmatched, columns, strict=True):
                counter.update(column)
    return MatchedOps(matched, unmatched)


def ran_same_ops(traces: Sequence[PhaseOps]) -> bool:
    """Whether all traces ran the same ops in the same order, with equally many moments."""
    first = [traces[0].kinds[kind].target for kind in traces[0].ops]
    return all(
        len(trace.live) == len(traces[0].live) and [trace.kinds[kind].target for kind in trace.ops] == first
        for trace in traces[1:]
    )


def _by_target(trace: PhaseOps) -> dict[str, list[int]]:
    kinds: dict[str, list[int]] = {}
    for kind in trace.ops:
        kinds.setdefault(trace.kinds[kind].target, []).append(kind)
    return kinds


def _backward(document: Document, totals: CostTotals | None) -> PhaseOps | None:
    step = lifetimes.training_step(document)
    if step is None or totals is None:
        return None
    ops = [op for op in step.ops if op.phase == "backward"]
    return PhaseOps(list(step.kinds), list(map(cost_of, step.kinds)), _kinds(ops), _live(step), totals)


def _kinds(ops: Sequence[Op]) -> list[int]:
    return [op.kind for op in ops]


def _live(recorded_pass: lifetimes.PassStorages) -> list[int]:
    return lifetimes.live_bytes(recorded_pass.moving, len(recorded_pass.ops))


def _sum(phase: str, column: str) -> Callable[[SizeSample], int | None]:
    counted = column.endswith(("macs", "flops"))

    def value_of(sample: SizeSample) -> int | None:
        trace: PhaseOps | None = getattr(sample, phase)
        if trace is None or (counted and not trace.totals.known):
            return None
        value: int = getattr(trace.totals, column)
        return value

    return value_of


def _peak(phase: str) -> Callable[[SizeSample], int | None]:
    def value_of(sample: SizeSample) -> int | None:
        trace: PhaseOps | None = getattr(sample, phase)
        return None if trace is None else max(trace.live, default=0)

    return value_of


_COLUMNS = {
    "macs": "MACs",
    "matrix_flops": "matrix FLOPs",
    "needed_flops": "needed FLOPs",
    "pointwise_flops": "pointwise FLOPs",
    "read_parameters": "bytes read, parameters",
    "read_activations": "bytes read, activations",
    "written": "bytes written",
}

QUANTITIES: dict[str, Quantity] = {
    **{name: Quantity(title, _sum("forward", name), column=name) for name, title in _COLUMNS.items()},
    "peak_activations": Quantity("peak activation bytes", _peak("forward"), peak=True),
    "ops": Quantity("ops", lambda sample: sample.forward.totals.ops),
    "cache": Quantity("KV cache bytes", lambda sample: sample.cache_bytes),
    **{
        f"backward_{name}": Quantity(f"backward {title}", _sum("backward", name), "backward", name)
        for name, title in _COLUMNS.items()
    },
    "training_peak_activations": Quantity("peak live bytes, training step", _peak("backward"), "backward", peak=True),
}
"""Every quantity that a scaling formula is derived for, by name."""
