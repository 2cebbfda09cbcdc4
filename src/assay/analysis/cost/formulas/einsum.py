"""Einstein sums of any arity, contracted pair by pair as torch does: left to right unless a path is given.

A pair that sums over an index is a contraction: the product of all its index sizes in MACs. A pair that
sums over none is an element-wise product; an index only one side has left is summed before the pair meets.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from assay.analysis.cost.categories import MATMUL
from assay.analysis.cost.reading import attribute, items
from assay.analysis.cost.registry import register
from assay.analysis.cost.work import Uncountable, Work, contraction
from assay.document.rows import OpKind

Sizes = dict[str, int]
"""An operand as its indices and their sizes; indices of size 1 are left out."""


@register("einsum", category=MATMUL)
def einsum(kind: OpKind) -> Work:
    """The pairwise contractions of an equation."""
    tensors = items(kind, "tensors") or [one.type for one in kind.inputs]
    if "equation" not in kind.attributes:
        raise Uncountable("an einsum without its equation")
    operands, kept = parse(str(kind.attributes["equation"]), [one.shape for one in tensors])
    macs, pointwise = contract(operands, kept, attribute(kind, "path"))
    return contraction(macs, tensors[0].dtype, pointwise=pointwise)


def parse(equation: str, shapes: list[tuple[int, ...]]) -> tuple[list[Sizes], set[str]]:
    """Each operand's index sizes, and the indices of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    spans = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes, strict=True)]
    widest = max((span for term, span in zip(terms, spans, strict=True) if "..." in term), default=0)
    dots = [f"{number}." for number in range(widest)]
    operands = [
        _sizes(_indices(term, dots[widest - span :] if "..." in term else []), shape)
        for term, shape, span in zip(terms, shapes, spans, strict=True)
    ]
    if arrow:
        return operands, set(_indices(right, dots))
    seen = Counter(left.replace("...", "").replace(",", ""))
    return operands, {letter for letter, times in seen.items() if times == 1} | set(dots)


def _indices(term: str, dots: list[str]) -> list[str]:
    before, ellipsis, after = term.partition("...")
    return [*before, *(dots if ellipsis else []), *after]


def _sizes(indices: list[str], shape: tuple[int, ...]) -> Sizes:
    """Sizes by index; a repeated index is a diagonal and counts once."""
    return {index: size for index, size in zip(indices, shape, strict=True) if size != 1}


def contract(operands: list[Sizes], kept: set[str], path: list[int] | None) -> tuple[int, int]:
    """(MACs, pointwise operations) of contracting the operands pair by pair."""
    left = list(operands)
    macs = pointwise = 0
    steps = iter(path or ())
    while len(left) > 1:
        pair = sorted((next(steps), next(steps))) if path else (0, 1)
        second, first = left.pop(pair[1]), left.pop(pair[0])
        made, more_macs, more_pointwise = _contract_pair(first, second, kept.union(*left))
        macs, pointwise = macs + more_macs, pointwise + more_pointwise
        left.insert(len(left) if path else 0, made)
    last = left[0]
    return macs, pointwise + (prod(last.values()) if set(last) - kept else 0)


def _contract_pair(first: Sizes, second: Sizes, needed: set[str]) -> tuple[Sizes, int, int]:
    """What is left of a pair, its MACs and pointwise operations; lone indices of either side are summed first."""
    summed = 0
    sides = []
    for side, other in ((first, second), (second, first)):
        lone = set(side) - set(other) - needed
        summed += prod(side.values()) if lone else 0
        sides.append({index: size for index, size in side.items() if index not in lone})
    union = sides[0] | sides[1]
    met = (set(sides[0]) & set(sides[1])) - needed
    work = prod(union.values())
    out = {index: size for index, size in union.items() if index not in met}
    return (out, work, summed) if met else (out, 0, summed + work)
