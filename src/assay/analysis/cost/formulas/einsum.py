"""Einsum with any number of operands, contracted in pairs like torch does: left to right unless a path is given.

A pair that sums over a shared index is a contraction: its MACs are the product of all index sizes. A pair without
such an index is an element-wise product. An index that only one of the pair has is summed before they are multiplied.
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
"""The indices of an operand with their sizes, without indices of size 1."""


@register("einsum", category=MATMUL)
def einsum(kind: OpKind) -> Work:
    """The work of the pairwise contractions of the equation."""
    tensors = items(kind, "tensors") or [one.type for one in kind.inputs]
    if "equation" not in kind.attributes:
        raise Uncountable("the equation of the einsum was not recorded")
    operands, kept = parse(str(kind.attributes["equation"]), [one.shape for one in tensors])
    macs, pointwise = contract(operands, kept, attribute(kind, "path"))
    return contraction(macs, tensors[0].dtype, pointwise=pointwise)


def parse(equation: str, shapes: list[tuple[int, ...]]) -> tuple[list[Sizes], set[str]]:
    """Each operand's index sizes, and the indices of the result."""
    operands, kept = labels(equation, [len(shape) for shape in shapes])
    return [_sizes(indices, shape) for indices, shape in zip(operands, shapes, strict=True)], kept


def labels(equation: str, ranks: list[int]) -> tuple[list[list[str]], set[str]]:
    """The index of each dimension of each operand, and the indices of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    spans = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    widest = max((span for term, span in zip(terms, spans, strict=True) if "..." in term), default=0)
    dots = [f"{number}." for number in range(widest)]
    operands = [
        _indices(term, dots[widest - span :] if "..." in term else [])
        for term, span in zip(terms, spans, strict=True)
    ]
    if arrow:
        return operands, set(_indices(right, dots))
    letters = Counter(left.replace("...", "").replace(",", ""))
    return operands, {letter for letter, times in letters.items() if times == 1} | set(dots)


def _indices(term: str, dots: list[str]) -> list[str]:
    before, ellipsis, after = term.partition("...")
    return [*before, *(dots if ellipsis else []), *after]


def _sizes(indices: list[str], shape: tuple[int, ...]) -> Sizes:
    """Sizes by index; a repeated index is a diagonal and appears once."""
    return {index: size for index, size in zip(indices, shape, strict=True) if size != 1}


def contract(operands: list[Sizes], kept: set[str], path: list[int] | None) -> tuple[int, int]:
    """MACs and pointwise ops of contracting the operands in pairs."""
    remaining = list(operands)
    macs = pointwise = 0
    steps = iter(path or ())
    while len(remaining) > 1:
        pair = sorted((next(steps), next(steps))) if path else (0, 1)
        second, first = remaining.pop(pair[1]), remaining.pop(pair[0])
        product, more_macs, more_pointwise = _contract_pair(first, second, kept.union(*remaining))
        macs, pointwise = macs + more_macs, pointwise + more_pointwise
        remaining.insert(len(remaining) if path else 0, product)
    last = remaining[0]
    return macs, pointwise + (prod(last.values()) if set(last) - kept else 0)


def _contract_pair(first: Sizes, second: Sizes, needed: set[str]) -> tuple[Sizes, int, int]:
    """The result of a pair, its MACs and its pointwise ops; indices of one side only are summed first."""
    summed = 0
    sides = []
    for side, other in ((first, second), (second, first)):
        lone = set(side) - set(other) - needed
        summed += prod(side.values()) if lone else 0
        sides.append({index: size for index, size in side.items() if index not in lone})
    union = sides[0] | sides[1]
    contracted = (set(sides[0]) & set(sides[1])) - needed
    work = prod(union.values())
    out = {index: size for index, size in union.items() if index not in contracted}
    return (out, work, summed) if contracted else (out, 0, summed + work)
