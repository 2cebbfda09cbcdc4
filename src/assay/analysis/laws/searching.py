"""The search for all laws: on one grid, finer ones and one of a higher degree, then how far each law holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.laws import reach
from assay.analysis.laws.deriving import SampleGrid, agrees, law_of, reason
from assay.analysis.laws.law import Law
from assay.analysis.laws.polynomials import Sizes, grid
from assay.analysis.laws.reach import SizePlan
from assay.analysis.laws.samples import QUANTITIES, Quantity, SizeSample
from assay.errors import UsageError

Sampler = Callable[[Sizes], SizeSample | str]
"""The sample at some sizes, or why there is none."""

_FINER = (16, 4)
"""Steps to try for what has no law at larger ones: there lookups take less than their tables have."""
_UNKNOWN = "unknown: no operation that ran has a formula"
_UNCHECKED = "the model runs at no size outside the grid that could verify it"


class _Attempt(Struct, frozen=True):
    """A grid to look for laws on."""

    plans: Sequence[SizePlan]
    widens: bool = False
    """Whether it may also find a wider law for what has one."""


def search(
    capture: Sampler, plans: Sequence[SizePlan], limits: Mapping[str, int], variables: tuple[str, ...]
) -> tuple[dict[str, Law], dict[str, str]]:
    """The laws of the quantities that have one, with the sizes they hold for, and why the others have none."""
    first = _needed(capture, grid([plan.nodes for plan in plans]), variables)
    wanted = {name: each for name, each in QUANTITIES.items() if each.figure(first) is not None}
    refused = {name: _UNKNOWN for name, each in QUANTITIES.items() if each.unknown(first)}
    refused |= dict.fromkeys(wanted, _UNCHECKED)
    laws: dict[str, Law] = {}
    for attempt in _attempts(plans):
        left = [name for name in wanted if name not in laws or (attempt.widens and _narrow(laws[name], first.sizes))]
        sampled = _sampled(capture, attempt.plans, limits, variables) if left else None
        if sampled is None:
            continue
        for name in left:
            law = law_of(wanted[name], sampled)
            law = law and _confined(law, wanted[name], capture, attempt.plans)
            if law is None:
                refused[name] = reason(wanted[name], sampled)
            elif name not in laws or _wider(law, laws[name]):
                laws[name] = law
    ordered = {name: laws[name] for name in wanted if name in laws}
    return ordered, {name: why for name, why in refused.items() if name not in laws}


def along(anchor: Sizes, axis: int, size: int) -> Sizes:
    """The anchor with one size changed."""
    return (*anchor[:axis], size, *anchor[axis + 1 :])


def _needed(capture: Sampler, points: Sequence[Sizes], variables: tuple[str, ...]) -> SizeSample:
    """The sample at the first point; refuses where the model stops at one of them."""
    found = [capture(sizes) for sizes in points]
    for sizes, each in zip(points, found, strict=True):
        if isinstance(each, str):
            at = ", ".join(f"{name}={size}" for name, size in zip(variables, sizes, strict=True))
            raise UsageError(f"the model stops at {at}: {each}")
    assert isinstance(found[0], SizeSample)
    return found[0]


def _attempts(plans: Sequence[SizePlan]) -> Iterator[_Attempt]:
    """Grids to try in turn, the next one for what has no law yet."""
    yield _Attempt(plans)
    for most in _FINER:
        finer = [plan.finer(most) for plan in plans]
        if finer != plans:
            yield _Attempt(finer, widens=True)
    yield _Attempt([plan.raised() for plan in plans])


def _sampled(
    capture: Sampler, plans: Sequence[SizePlan], limits: Mapping[str, int], variables: tuple[str, ...]
) -> SampleGrid | None:
    """Samples on the grid and at the checks; None where the model does not run at enough of them."""
    nodes = tuple(plan.nodes for plan in plans)
    anchor = tuple(each[0] for each in nodes)
    points = grid(nodes)
    outside = [along(anchor, index, plan.check) for index, plan in enumerate(plans)]
    outside.append(tuple(plan.check for plan in plans))
    samples, checks = (
        [found for sizes in group if isinstance(found := capture(sizes), SizeSample)] for group in (points, outside)
    )
    if len(samples) < len(points) or len(checks) < len(plans):
        return None
    return SampleGrid(variables, nodes, samples, checks, limits)


def _confined(law: Law, quantity: Quantity, capture: Sampler, plans: Sequence[SizePlan]) -> Law:
    """The law with the sizes it holds for, looked for along each variable and at the corner below."""
    anchor = tuple(plan.nodes[0] for plan in plans)
    spans = dict(law.spans)
    for index, (name, plan) in enumerate(zip(law.variables, plans, strict=True)):
        if plan.explored:
            bounded = _bounded(capture, plan, anchor, index)
            found = reach.span(_verdict(law, quantity, capture, anchor, index), bounded)
            spans[name] = replace(found, ends_above=found.ends_above or spans[name].ends_above)
    corner = capture(tuple(spans[name].least for name in law.variables))
    if not isinstance(corner, SizeSample) or not agrees(law, quantity, corner):
        spans = {
            name: replace(spans[name], least=first, ends_below=True)
            for name, first in zip(law.variables, anchor, strict=True)
        }
    return replace(law, spans=spans)


def _verdict(law: Law, quantity: Quantity, capture: Sampler, anchor: Sizes, index: int) -> reach.Verdict:
    def holds(size: int) -> bool | None:
        found = capture(along(anchor, index, size))
        return agrees(law, quantity, found) if isinstance(found, SizeSample) else None

    return holds


def _bounded(capture: Sampler, plan: SizePlan, anchor: Sizes, index: int) -> SizePlan:
    """The plan without its far end where more operations run at larger sizes: loops would take their time."""
    near, check = capture(anchor), capture(along(anchor, index, plan.check))
    counts = [len(each.forward.ops) if isinstance(each, SizeSample) else None for each in (near, check)]
    return replace(plan, far=None) if None in counts or counts[0] != counts[1] else plan


def _narrow(law: Law, first: Sizes) -> bool:
    """Whether it holds no further down than the first sizes, where those are not small themselves."""
    spans = zip((law.spans[name] for name in law.variables), first, strict=True)
    return any(span.ends_below and span.least >= size > min(_FINER) for span, size in spans)


def _wider(law: Law, other: Law) -> bool:
    """Whether it holds wherever the other does, and further down."""
    pairs = [(law.spans[name], other.spans[name]) for name in law.variables]
    reaches = all(one.least <= two.least and one.ends_above <= two.ends_above for one, two in pairs)
    return reaches and any(one.least < two.least for one, two in pairs)
