"""From samples on a grid to a scaling formula: fitted polynomials, accepted only if further samples agree.

A sum over ops is one polynomial, except for lookups. A lookup reads the rows it selects but never more than the
table, so each lookup op adds the smaller of two polynomials. A peak is the largest of the sums at each moment, if
every capture ran the same ops.
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
from assay.analysis.laws.comparing import never_above, possible_maxima
from assay.analysis.laws.law import Law, Part, VerifiedRange
from assay.analysis.laws.polynomials import Polynomial, Sizes, interpolate, polynomial
from assay.analysis.laws.samples import PhaseOps, Quantity, SizeSample, match_ops, ran_same_ops

_NAMED = 3
"""How many ops a reason lists."""


class SampleGrid(Struct, frozen=True):
    """Samples at all combinations of the nodes, in order, and further samples to check a formula against."""

    variables: tuple[str, ...]
    nodes: tuple[tuple[int, ...], ...]
    samples: list[SizeSample]
    checks: list[SizeSample]
    limits: Mapping[str, int]
    """The largest sizes that the model accepts, if it declares them."""

    def fit(self, values: Sequence[int]) -> Polynomial:
        """The polynomial that has these values at the samples."""
        return interpolate(self.variables, self.nodes, values)

    def points(self) -> list[Sizes]:
        """The sizes of the samples."""
        return [each.sizes for each in self.samples]

    def all_samples(self) -> list[SizeSample]:
        """The samples on the grid and the checks."""
        return [*self.samples, *self.checks]


def law_of(quantity: Quantity, grid: SampleGrid) -> Law | None:
    """The scaling formula of a quantity; None if it does not match every sample."""
    values = [quantity.value_of(each) for each in grid.samples]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    traces = _traces(quantity, grid.samples)
    spans = _spans(grid)
    if quantity.peak and ran_same_ops(traces):
        parts: tuple[Part, ...] = (_largest(traces, grid),)
    elif quantity.column in Traffic.__struct_fields__:
        parts = _with_lookups(traces, str(quantity.column), grid)
    else:
        parts = (Part((grid.fit(known),)),)
        # Without the sums at each moment, a different one may be the largest beyond the sizes compared.
        spans = {name: replace(each, ends_above=quantity.peak) for name, each in spans.items()}
    law = Law(grid.variables, parts, spans)
    return law if all(agrees(law, quantity, each) for each in grid.all_samples()) else None


def agrees(law: Law, quantity: Quantity, sample: SizeSample) -> bool:
    """Whether the formula gives the value that the sample has."""
    return law.at(sample.sizes) == quantity.value_of(sample)


def failure_reason(quantity: Quantity, grid: SampleGrid) -> str:
    """Why a quantity has no scaling formula, with the ops that prevent one."""
    degree = max(len(nodes) for nodes in grid.nodes) - 1
    message = f"not a polynomial of degree ≤ {degree}"
    if quantity.peak:
        return f"{message}, nor the maximum of several"
    if quantity.column is None:
        return message
    names = _culprits(_traces(quantity, grid.all_samples()), quantity.column, grid)
    return f"{message}: {', '.join(names) or 'different ops run at different sizes'}"


def _traces(quantity: Quantity, samples: Iterable[SizeSample]) -> list[PhaseOps]:
    return [getattr(each, quantity.phase) for each in samples]


def _with_lookups(traces: list[PhaseOps], column: str, grid: SampleGrid) -> tuple[Part, ...]:
    """The sum over all ops that read whole inputs, and for each lookup the smaller of its rows and its table."""
    matches = match_ops(traces)
    smooth = [
        sum(times * getattr(trace.costs[kind], column) for kind, times in unmatched.items())
        for trace, unmatched in zip(traces, matches.unmatched, strict=True)
    ]
    lookups: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for kinds, times in matches.matched.items():
        pairs = list(zip(traces, kinds, strict=True))
        rows = tuple(getattr(trace.costs[kind], column) for trace, kind in pairs)
        whole = tuple(getattr(streamed(trace.kinds[kind]), column) for trace, kind in pairs)
        if rows == whole:
            smooth = [total + times * value for total, value in zip(smooth, rows, strict=True)]
        else:
            lookups[rows, whole] += times
    total = grid.fit(smooth)
    capped: list[Part] = []
    for (rows, whole), times in lookups.items():
        every, most = ([times * value for value in values] for values in (rows, whole))
        lower, upper = _uncapped(every, most, grid), grid.fit(most)
        if never_above(lower, upper, grid.limits):
            total += lower
        else:
            capped.append(Part((lower, upper), "min"))
    return (Part((total,)), *capped)


def _uncapped(rows: Sequence[int], whole: Sequence[int], grid: SampleGrid) -> Polynomial:
    """The bytes a lookup would read from an endless table, fitted at small sizes, where it reads less than all."""
    points = grid.points()
    upper = grid.fit(whole)
    for box in sorted(product(*(range(1, len(each) + 1) for each in grid.nodes)), key=prod, reverse=True):
        nodes = tuple(each[:count] for each, count in zip(grid.nodes, box, strict=True))
        inside = [index for index, sizes in enumerate(points) if all(map(contains, nodes, sizes))]
        if all(rows[index] < whole[index] for index in inside):
            lower = interpolate(grid.variables, nodes, [rows[index] for index in inside])
            if all(min(lower.at(each), upper.at(each)) == value for each, value in zip(points, rows, strict=True)):
                return lower
    return grid.fit(rows)


def _largest(traces: list[PhaseOps], grid: SampleGrid) -> Part:
    """The maximum of the sums at each moment, without those that are provably never the largest."""
    moments = sorted(set(zip(*(trace.live for trace in traces), strict=True)), reverse=True)
    kept = possible_maxima([grid.fit(values) for values in moments])
    return Part(tuple(kept) or (polynomial(grid.variables, {}),), "max" if len(kept) > 1 else "only")


def _culprits(traces: list[PhaseOps], column: str, grid: SampleGrid) -> list[str]:
    """The ops whose own cost is not a polynomial of the sizes, most frequent first."""
    names: Counter[str] = Counter()
    for kinds, times in match_ops(traces).matched.items():
        values = [getattr(trace.costs[kind], column) or 0 for trace, kind in zip(traces, kinds, strict=True)]
        fitted = grid.fit(values[: len(grid.samples)])
        checks = zip(grid.checks, values[len(grid.samples) :], strict=True)
        if any(fitted.at(each.sizes) != value for each, value in checks):
            names[traces[0].kinds[kinds[0]].name] += times
    return [name for name, _ in names.most_common(_NAMED)]


def _spans(grid: SampleGrid) -> dict[str, VerifiedRange]:
    """The range of each variable over all samples."""
    columns = zip(*(each.sizes for each in grid.all_samples()), strict=True)
    return {name: VerifiedRange(min(sizes), max(sizes)) for name, sizes in zip(grid.variables, columns, strict=True)}
