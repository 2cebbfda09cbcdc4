"""From samples on a grid to a law: polynomials through the figures, kept where more samples agree.

A sum over operations is one polynomial, but for lookups: those read the rows they take and never more than
the table, so each adds the smaller of two, operation by operation. A peak is the largest of the sums at each
moment, where every capture ran the same operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from operator import contains

from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.cost.bytes import Traffic, streamed
from assay.analysis.laws.comparing import highest, never_above
from assay.analysis.laws.law import Law, Part, VerifiedRange
from assay.analysis.laws.polynomials import Polynomial, Sizes, polynomial, through
from assay.analysis.laws.samples import PhaseOps, Quantity, SizeSample, in_step, matched

_NAMED = 3
"""Operations that a reason names."""


class SampleGrid(Struct, frozen=True):
    """Samples at all combinations of the nodes, in order, and more samples to agree with."""

    variables: tuple[str, ...]
    nodes: tuple[tuple[int, ...], ...]
    samples: list[SizeSample]
    checks: list[SizeSample]
    limits: Mapping[str, int]
    """The largest sizes that the model takes, where it says."""

    def fit(self, values: Sequence[int]) -> Polynomial:
        """The polynomial through these values at the samples."""
        return through(self.variables, self.nodes, values)

    def points(self) -> list[Sizes]:
        """The sizes of the samples."""
        return [each.sizes for each in self.samples]

    def everywhere(self) -> list[SizeSample]:
        """All samples."""
        return [*self.samples, *self.checks]


def law_of(quantity: Quantity, grid: SampleGrid) -> Law | None:
    """The law of a quantity, None where its form does not agree with every sample."""
    figures = [quantity.figure(each) for each in grid.samples]
    known = [figure for figure in figures if figure is not None]
    if len(known) < len(figures):
        return None
    traces = _traces(quantity, grid.samples)
    spans = _spans(grid)
    if quantity.peak and in_step(traces):
        parts: tuple[Part, ...] = (_largest(traces, grid),)
    elif quantity.column in Traffic.__struct_fields__:
        parts = _with_lookups(traces, str(quantity.column), grid)
    else:
        parts = (Part((grid.fit(known),)),)
        # Without the sums at each moment another may come to be the largest beyond what was compared.
        spans = {name: replace(each, ends_above=quantity.peak) for name, each in spans.items()}
    law = Law(grid.variables, parts, spans)
    return law if all(agrees(law, quantity, each) for each in grid.everywhere()) else None


def agrees(law: Law, quantity: Quantity, sample: SizeSample) -> bool:
    """Whether the law says what the sample shows."""
    return law.at(sample.sizes) == quantity.figure(sample)


def reason(quantity: Quantity, grid: SampleGrid) -> str:
    """Why there is no law: which operations stand against it."""
    degree = max(len(nodes) for nodes in grid.nodes) - 1
    said = f"not a polynomial of degree ≤ {degree}"
    if quantity.peak:
        return f"{said}, nor the largest of several"
    if quantity.column is None:
        return said
    names = _culprits(_traces(quantity, grid.everywhere()), quantity.column, grid)
    return f"{said}: {', '.join(names) or 'other operations run at other sizes'}"


def _traces(quantity: Quantity, samples: Iterable[SizeSample]) -> list[PhaseOps]:
    return [getattr(each, quantity.phase) for each in samples]


def _with_lookups(traces: list[PhaseOps], column: str, grid: SampleGrid) -> tuple[Part, ...]:
    """The sum of all that is streamed, and for each lookup the smaller of what it takes and what there is."""
    found = matched(traces)
    smooth = [
        sum(times * getattr(trace.costs[kind], column) for kind, times in apart.items())
        for trace, apart in zip(traces, found.apart, strict=True)
    ]
    lookups: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for kinds, times in found.together.items():
        pairs = list(zip(traces, kinds, strict=True))
        taken = tuple(getattr(trace.costs[kind], column) for trace, kind in pairs)
        whole = tuple(getattr(streamed(trace.kinds[kind]), column) for trace, kind in pairs)
        if taken == whole:
            smooth = [total + times * value for total, value in zip(smooth, taken, strict=True)]
        else:
            lookups[taken, whole] += times
    total = grid.fit(smooth)
    capped: list[Part] = []
    for (taken, whole), times in lookups.items():
        every, most = ([times * value for value in values] for values in (taken, whole))
        lower, upper = _taken(every, most, grid), grid.fit(most)
        if never_above(lower, upper, grid.limits):
            total += lower
        else:
            capped.append(Part((lower, upper), "min"))
    return (Part((total,)), *capped)


def _taken(taken: Sequence[int], whole: Sequence[int], grid: SampleGrid) -> Polynomial:
    """What a lookup would take were the table endless: from the smallest sizes, where it takes less than all."""
    points = grid.points()
    upper = grid.fit(whole)
    for box in sorted(product(*(range(1, len(each) + 1) for each in grid.nodes)), key=prod, reverse=True):
        nodes = tuple(each[:count] for each, count in zip(grid.nodes, box, strict=True))
        inside = [index for index, sizes in enumerate(points) if all(map(contains, nodes, sizes))]
        if all(taken[index] < whole[index] for index in inside):
            lower = through(grid.variables, nodes, [taken[index] for index in inside])
            if all(min(lower.at(each), upper.at(each)) == value for each, value in zip(points, taken, strict=True)):
                return lower
    return grid.fit(taken)


def _largest(traces: list[PhaseOps], grid: SampleGrid) -> Part:
    """The largest of the sums at each moment, those that others are never below left out."""
    moments = sorted(set(zip(*(trace.live for trace in traces), strict=True)), reverse=True)
    kept = highest([grid.fit(values) for values in moments])
    return Part(tuple(kept) or (polynomial(grid.variables, {}),), "max" if len(kept) > 1 else "only")


def _culprits(traces: list[PhaseOps], column: str, grid: SampleGrid) -> list[str]:
    """The operations whose own figures no polynomial goes through, the most frequent first."""
    found: Counter[str] = Counter()
    for kinds, times in matched(traces).together.items():
        values = [getattr(trace.costs[kind], column) or 0 for trace, kind in zip(traces, kinds, strict=True)]
        fitted = grid.fit(values[: len(grid.samples)])
        checks = zip(grid.checks, values[len(grid.samples) :], strict=True)
        if any(fitted.at(each.sizes) != value for each, value in checks):
            found[traces[0].kinds[kinds[0]].name] += times
    return [name for name, _ in found.most_common(_NAMED)]


def _spans(grid: SampleGrid) -> dict[str, VerifiedRange]:
    """From the smallest to the largest size of each variable among all samples."""
    columns = zip(*(each.sizes for each in grid.everywhere()), strict=True)
    return {name: VerifiedRange(min(sizes), max(sizes)) for name, sizes in zip(grid.variables, columns, strict=True)}
