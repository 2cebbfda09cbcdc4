"""The search for all laws: on one grid, finer ones and one of a higher degree, then how far each law holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.laws import reach
from assay.analysis.laws.deriving import Grid, agrees, law_of, reason
from assay.analysis.laws.law import Law, Span
from assay.analysis.laws.polynomials import Sizes, grid
from assay.analysis.laws.reach import Line
from assay.analysis.laws.samples import QUANTITIES, Quantity, Sample
from assay.errors import UsageError

Capture = Callable[[Sizes], Sample | str]
"""The sample at some sizes, or why there is none."""

_FINER = (16, 4)
"""Steps to try for what has no law at larger ones: there lookups take less than their tables have."""
_UNKNOWN = "unknown: no operation that ran has a formula"
_UNCHECKED = "the model runs at no size outside the grid that could verify it"


class _Attempt(Struct, frozen=True):
    """A grid to look for laws on."""

    lines: Sequence[Line]
    widens: bool = False
    """Whether it may also find a wider law for what has one."""


def search(
    capture: Capture, lines: Sequence[Line], limits: Mapping[str, int], variables: tuple[str, ...]
) -> tuple[dict[str, Law], dict[str, str]]:
    """The laws of the quantities that have one, with the sizes they hold for, and why the others have none."""
    first = _needed(capture, grid([line.nodes for line in lines]), variables)
    wanted = {name: each for name, each in QUANTITIES.items() if each.figure(first) is not None}
    refused = {name: _UNKNOWN for name, each in QUANTITIES.items() if each.unknown(first)}
    refused |= dict.fromkeys(wanted, _UNCHECKED)
    laws: dict[str, Law] = {}
    for attempt in _attempts(lines):
        left = [name for name in wanted if name not in laws or (attempt.widens and _narrow(laws[name], first.sizes))]
        sampled = _sampled(capture, attempt.lines, limits, variables) if left else None
        if sampled is None:
            continue
        for name in left:
            law = law_of(wanted[name], sampled)
            law = law and _confined(law, wanted[name], capture, attempt.lines)
            if law is None:
                refused[name] = reason(wanted[name], sampled)
            elif name not in laws or _wider(law, laws[name]):
                laws[name] = law
    ordered = {name: laws[name] for name in wanted if name in laws}
    return ordered, {name: why for name, why in refused.items() if name not in laws}


def along(anchor: Sizes, axis: int, size: int) -> Sizes:
    """The anchor with one size changed."""
    return (*anchor[:axis], size, *anchor[axis + 1 :])


def _needed(capture: Capture, points: Sequence[Sizes], variables: tuple[str, ...]) -> Sample:
    """The sample at the first point; refuses where the model stops at one of them."""
    found = [capture(sizes) for sizes in points]
    for sizes, each in zip(points, found, strict=True):
        if isinstance(each, str):
            at = ", ".join(f"{name}={size}" for name, size in zip(variables, sizes, strict=True))
            raise UsageError(f"the model stops at {at}: {each}")
    assert isinstance(found[0], Sample)
    return found[0]


def _attempts(lines: Sequence[Line]) -> Iterator[_Attempt]:
    """Grids to try in turn, the next one for what has no law yet."""
    yield _Attempt(lines)
    for most in _FINER:
        finer = [line.finer(most) for line in lines]
        if finer != lines:
            yield _Attempt(finer, widens=True)
    yield _Attempt([line.raised() for line in lines])


def _sampled(
    capture: Capture, lines: Sequence[Line], limits: Mapping[str, int], variables: tuple[str, ...]
) -> Grid | None:
    """Samples on the grid and at the checks; None where the model does not run at enough of them."""
    nodes = tuple(line.nodes for line in lines)
    anchor = tuple(each[0] for each in nodes)
    points = grid(nodes)
    outside = [along(anchor, index, line.check) for index, line in enumerate(lines)]
    outside.append(tuple(line.check for line in lines))
    samples, checks = (
        [found for sizes in group if isinstance(found := capture(sizes), Sample)] for group in (points, outside)
    )
    if len(samples) < len(points) or len(checks) < len(lines):
        return None
    return Grid(variables, nodes, samples, checks, limits)


def _confined(law: Law, quantity: Quantity, capture: Capture, lines: Sequence[Line]) -> Law:
    """The law with the sizes it holds for, looked for along each variable and at the corner below."""
    anchor = tuple(line.nodes[0] for line in lines)
    spans = dict(law.spans)
    for index, (name, line) in enumerate(zip(law.variables, lines, strict=True)):
        if line.explored:
            bounded = _bounded(capture, line, anchor, index)
            found = reach.span(_verdict(law, quantity, capture, anchor, index), bounded)
            spans[name] = replace(found, ends_above=found.ends_above or spans[name].ends_above)
    corner = capture(tuple(spans[name].least for name in law.variables))
    if not isinstance(corner, Sample) or not agrees(law, quantity, corner):
        spans = {name: _from(spans[name], first) for name, first in zip(law.variables, anchor, strict=True)}
    return replace(law, spans=spans)


def _from(span: Span, least: int) -> Span:
    return replace(span, least=least, ends_below=True)


def _verdict(law: Law, quantity: Quantity, capture: Capture, anchor: Sizes, index: int) -> reach.Verdict:
    def holds(size: int) -> bool | None:
        found = capture(along(anchor, index, size))
        return agrees(law, quantity, found) if isinstance(found, Sample) else None

    return holds


def _bounded(capture: Capture, line: Line, anchor: Sizes, index: int) -> Line:
    """The line without its far end where more operations run at larger sizes: loops would take their time."""
    near, check = capture(anchor), capture(along(anchor, index, line.check))
    same = isinstance(near, Sample) and isinstance(check, Sample) and len(near.forward.ops) == len(check.forward.ops)
    return line if same else replace(line, far=None)


def _narrow(law: Law, first: Sizes) -> bool:
    """Whether it holds no further down than the first sizes, where those are not small themselves."""
    spans = zip((law.spans[name] for name in law.variables), first, strict=True)
    return any(span.ends_below and span.least >= size > min(_FINER) for span, size in spans)


def _wider(law: Law, other: Law) -> bool:
    """Whether it holds wherever the other does, and further down."""
    pairs = [(law.spans[name], other.spans[name]) for name in law.variables]
    reaches = all(one.least <= two.least and one.ends_above <= two.ends_above for one, two in pairs)
    return reaches and any(one.least < two.least for one, two in pairs)
