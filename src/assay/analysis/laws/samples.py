"""What one capture contributes: the figures of every quantity, and what each operation adds to them."""

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
    """The operations of one phase in order."""

    kinds: list[OpKind]
    costs: list[KindCost]
    """In the order of `kinds`."""
    ops: list[int]
    """The kind of each execution."""
    live: list[int]
    """Bytes alive during each operation, without what is resident."""
    totals: CostTotals


class SizeSample(Struct, frozen=True):
    """One capture at some sizes."""

    sizes: Sizes
    forward: PhaseOps
    backward: PhaseOps | None
    """Its `live` is that of the whole training step."""
    cache_bytes: int | None


class Quantity(Struct, frozen=True):
    """Something that grows: its title, where its figure is, and what it is made of."""

    title: str
    figure: Callable[[SizeSample], int | None]
    phase: str = "forward"
    column: str | None = None
    """What each operation adds, where it is a sum over operations."""
    peak: bool = False
    """Whether it is the largest of a sum over time."""

    def unknown(self, one: SizeSample) -> bool:
        """Whether the sample should tell and cannot: what ran has no formula."""
        return self.column is not None and getattr(one, self.phase) is not None and self.figure(one) is None


def sample(sizes: Sizes, document: Document) -> SizeSample:
    """What a document says about its sizes."""
    cost = document.cost or add_up(document)
    watched = lifetimes.forward(document)
    forward = PhaseOps(document.kinds, cost.kinds, _kinds(document.ops), _live(watched), cost.forward)
    cache = document.run.cache
    return SizeSample(sizes, forward, _backward(document, cost.backward), None if cache is None else cache.bytes)


class MatchedOps(Struct, frozen=True):
    """The operations of several traces, those with the same place together."""

    together: Counter[tuple[int, ...]]
    """How often each combination of kinds, one a trace, stands at the same place."""
    apart: list[Counter[int]]
    """For each trace how often each kind ran whose operation runs more often in one trace than in another."""


def matched(traces: Sequence[PhaseOps]) -> MatchedOps:
    """The operations by their place among all with the same target."""
    by_target = [_by_target(trace) for trace in traces]
    together: Counter[tuple[int, ...]] = Counter()
    apart: list[Counter[int]] = [Counter() for _ in traces]
    for target in dict.fromkeys(target for each in by_target for target in each):
        columns = [each.get(target, []) for each in by_target]
        if len({len(column) for column in columns}) == 1:
            together.update(zip(*columns, strict=True))
        else:
            for counter, column in zip(apart, columns, strict=True):
                counter.update(column)
    return MatchedOps(together, apart)


def in_step(traces: Sequence[PhaseOps]) -> bool:
    """Whether all traces ran the same operations in the same order and have as many moments."""
    first = [traces[0].kinds[kind].target for kind in traces[0].ops]
    return all(
        len(trace.live) == len(traces[0].live) and [trace.kinds[kind].target for kind in trace.ops] == first
        for trace in traces[1:]
    )


def _by_target(trace: PhaseOps) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for kind in trace.ops:
        found.setdefault(trace.kinds[kind].target, []).append(kind)
    return found


def _backward(document: Document, totals: CostTotals | None) -> PhaseOps | None:
    step = lifetimes.training_step(document)
    if step is None or totals is None:
        return None
    ops = [op for op in step.ops if op.phase == "backward"]
    return PhaseOps(list(step.kinds), list(map(cost_of, step.kinds)), _kinds(ops), _live(step), totals)


def _kinds(ops: Sequence[Op]) -> list[int]:
    return [op.kind for op in ops]


def _live(watched: lifetimes.PassStorages) -> list[int]:
    return lifetimes.alive(watched.moving, len(watched.ops))


def _sum(phase: str, column: str) -> Callable[[SizeSample], int | None]:
    counted = column.endswith(("macs", "flops"))

    def figure(one: SizeSample) -> int | None:
        trace: PhaseOps | None = getattr(one, phase)
        if trace is None or (counted and not trace.totals.known):
            return None
        value: int = getattr(trace.totals, column)
        return value

    return figure


def _peak(phase: str) -> Callable[[SizeSample], int | None]:
    def figure(one: SizeSample) -> int | None:
        trace: PhaseOps | None = getattr(one, phase)
        return None if trace is None else max(trace.live, default=0)

    return figure


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
    "ops": Quantity("operations", lambda one: one.forward.totals.ops),
    "cache": Quantity("key and value cache bytes", lambda one: one.cache_bytes),
    **{
        f"backward_{name}": Quantity(f"backward {title}", _sum("backward", name), "backward", name)
        for name, title in _COLUMNS.items()
    },
    "training_peak_activations": Quantity(
        "peak bytes alive, training step", _peak("backward"), "backward", peak=True
    ),
}
"""Everything a law is looked for, by name."""
