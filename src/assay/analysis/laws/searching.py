"""The search for scaling formulas on a grid, finer grids and at a higher degree, and for the range each holds in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.laws import reach
from assay.analysis.laws.deriving import SampleGrid, agrees, failure_reason, law_of
from assay.analysis.laws.law import Law
from assay.analysis.laws.polynomials import Sizes, grid
from assay.analysis.laws.reach import SizePlan
from assay.analysis.laws.samples import QUANTITIES, Quantity, SizeSample
from assay.errors import UsageError

Sampler = Callable[[Sizes], SizeSample | str]
"""A function that returns the sample at given sizes, or the reason why there is none."""

_FINER = (16, 4)
"""Smaller steps to try if larger ones give no formula: at small sizes, lookups read less than the whole table."""
_UNKNOWN = "unknown: none of the ops has a cost formula"
_UNCHECKED = "not verified: the model does not run at any size outside the grid"


class _Attempt(Struct, frozen=True):
    """A grid on which to search for formulas."""

    plans: Sequence[SizePlan]
    widens: bool = False
    """Whether it may also replace a formula by one that holds for more sizes."""


def search(
    capture: Sampler, plans: Sequence[SizePlan], limits: Mapping[str, int], variables: tuple[str, ...]
) -> tuple[dict[str, Law], dict[str, str]]:
    """The scaling formulas by quantity, with the sizes they hold for, and the reasons for quantities without one."""
    first = _first_sample(capture, grid([plan.nodes for plan in plans]), variables)
    quantities = {name: each for name, each in QUANTITIES.items() if each.value_of(first) is not None}
    refused = {name: _UNKNOWN for name, each in QUANTITIES.items() if each.unknown(first)}
    refused |= dict.fromkeys(quantities, _UNCHECKED)
    laws: dict[str, Law] = {}
    for attempt in _attempts(plans):
        narrow = {name for name, law in laws.items() if attempt.widens and _narrow(law, first.sizes)}
        pending = [name for name in quantities if name not in laws or name in narrow]
        samples = _sample_grid(capture, attempt.plans, limits, variables) if pending else None
        if samples is None:
            continue
        for name in pending:
            law = law_of(quantities[name], samples)
            law = law and _with_verified_range(law, quantities[name], capture, attempt.plans)
            if law is None:
                refused[name] = failure_reason(quantities[name], samples)
            elif name not in laws or _wider(law, laws[name]):
                laws[name] = law
    ordered = {name: laws[name] for name in quantities if name in laws}
    return ordered, {name: why for name, why in refused.items() if name not in laws}


def along(anchor: Sizes, axis: int, size: int) -> Sizes:
    """The anchor with the size of one variable replaced."""
    return (*anchor[:axis], size, *anchor[axis + 1 :])


def _first_sample(capture: Sampler, points: Sequence[Sizes], variables: tuple[str, ...]) -> SizeSample:
    """The sample at the first point; raises `UsageError` if the model fails at any of the points."""
    samples = [capture(sizes) for sizes in points]
    for sizes, each in zip(points, samples, strict=True):
        if isinstance(each, str):
            at = ", ".join(f"{name}={size}" for name, size in zip(variables, sizes, strict=True))
            raise UsageError(f"the model fails at {at}: {each}")
    assert isinstance(samples[0], SizeSample)
    return samples[0]


def _attempts(plans: Sequence[SizePlan]) -> Iterator[_Attempt]:
    """Grids to try in turn; each is for the quantities that have no formula yet."""
    yield _Attempt(plans)
    for most in _FINER:
        finer = [plan.finer(most) for plan in plans]
        if finer != plans:
            yield _Attempt(finer, widens=True)
    yield _Attempt([plan.raised() for plan in plans])


def _sample_grid(
    capture: Sampler, plans: Sequence[SizePlan], limits: Mapping[str, int], variables: tuple[str, ...]
) -> SampleGrid | None:
    """Samples on the grid and at the checks; None if the model does not run at enough of these sizes."""
    nodes = tuple(plan.nodes for plan in plans)
    anchor = tuple(each[0] for each in nodes)
    points = grid(nodes)
    outside = [along(anchor, index, plan.check) for index, plan in enumerate(plans)]
    outside.append(tuple(plan.check for plan in plans))
    samples, checks = (
        [sample for sizes in group if isinstance(sample := capture(sizes), SizeSample)] for group in (points, outside)
    )
    if len(samples) < len(points) or len(checks) < len(plans):
        return None
    return SampleGrid(variables, nodes, samples, checks, limits)


def _with_verified_range(law: Law, quantity: Quantity, capture: Sampler, plans: Sequence[SizePlan]) -> Law:
    """The formula with the range it holds in, searched along each variable and at the corner of smallest sizes."""
    anchor = tuple(plan.nodes[0] for plan in plans)
    spans = dict(law.spans)
    for index, (name, plan) in enumerate(zip(law.variables, plans, strict=True)):
        if plan.explored:
            bounded = _bounded(capture, plan, anchor, index)
            span = reach.verified_range(_verdict(law, quantity, capture, anchor, index), bounded)
            spans[name] = replace(span, ends_above=span.ends_above or spans[name].ends_above)
    corner = capture(tuple(spans[name].least for name in law.variables))
    if not isinstance(corner, SizeSample) or not agrees(law, quantity, corner):
        spans = {
            name: replace(spans[name], least=first, ends_below=True)
            for name, first in zip(law.variables, anchor, strict=True)
        }
    return replace(law, spans=spans)


def _verdict(law: Law, quantity: Quantity, capture: Sampler, anchor: Sizes, index: int) -> reach.Verdict:
    def holds(size: int) -> bool | None:
        sample = capture(along(anchor, index, size))
        return agrees(law, quantity, sample) if isinstance(sample, SizeSample) else None

    return holds


def _bounded(capture: Sampler, plan: SizePlan, anchor: Sizes, index: int) -> SizePlan:
    """The plan without its far end if the number of ops grows with the size: long loops would take too much time."""
    near, check = capture(anchor), capture(along(anchor, index, plan.check))
    counts = [len(each.forward.ops) if isinstance(each, SizeSample) else None for each in (near, check)]
    return replace(plan, far=None) if None in counts or counts[0] != counts[1] else plan


def _narrow(law: Law, first: Sizes) -> bool:
    """Whether the formula fails below the first sizes although these are not small."""
    spans = zip((law.spans[name] for name in law.variables), first, strict=True)
    return any(span.ends_below and span.least >= size > min(_FINER) for span, size in spans)


def _wider(law: Law, other: Law) -> bool:
    """Whether the formula holds wherever the other does, and at smaller sizes too."""
    pairs = [(law.spans[name], other.spans[name]) for name in law.variables]
    reaches = all(one.least <= two.least and one.ends_above <= two.ends_above for one, two in pairs)
    return reaches and any(one.least < two.least for one, two in pairs)
