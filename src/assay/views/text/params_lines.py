"""The lines of a table of tensors: one a tensor, or one for all of a repeated block's with what holds for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from operator import attrgetter
from typing import Any

from assay.document.weights import TensorStatistics, WeightsReport

_LISTED = 4
"""Numbers of blocks that are listed one by one where they do not follow each other."""


@dataclass(frozen=True)
class TensorRow:
    """Tensors of one kind, dtype and shape; a single one in a table that is not folded."""

    name: str
    tensors: Sequence[TensorStatistics]


def lines_of(report: WeightsReport, *, full: bool) -> list[TensorRow]:
    """The lines in the order of the file; with `full` every tensor has its own."""
    if full:
        return [TensorRow(shown_name(tensor), (tensor,)) for tensor in report.tensors]
    family_of = {row: family.name for family in report.families for row in family.tensors}
    groups: dict[Any, list[TensorStatistics]] = {}
    for row, tensor in enumerate(report.tensors):
        key = (family_of.get(row, row), tensor.dtype, tensor.shape, bool(tensor.problem))
        groups.setdefault(key, []).append(tensor)
    return [TensorRow(_folded_name(str(key[0]), tensors), tensors) for key, tensors in groups.items()]


def sorted_lines(lines: Iterable[TensorRow], key: str) -> list[TensorRow]:
    """By a figure, the largest first and the unknown last; by a text, in its order."""
    value = FIGURES[key]
    known = [(value(line.tensors), line) for line in lines]
    texts = any(isinstance(each, str) for each, _ in known)
    there = sorted((pair for pair in known if pair[0] is not None), key=lambda pair: pair[0], reverse=not texts)
    return [line for _, line in there] + [line for each, line in known if each is None]


def shown_name(tensor: TensorStatistics) -> str:
    """Its first name; a file may hold a tensor without any."""
    return tensor.names[0] if tensor.names and tensor.names[0] else "(unnamed)"


def _folded_name(family: str, tensors: Sequence[TensorStatistics]) -> str:
    """`layers.0–31.mlp.up_proj.weight ×32` for tensors of the family `layers.#.mlp.up_proj.weight`."""
    first = shown_name(tensors[0])
    if len(tensors) == 1:
        return first
    parts = family.split("#")
    pattern = re.compile(r"(\d+)".join(map(re.escape, parts)), re.ASCII)
    matched = [pattern.fullmatch(shown_name(tensor)) for tensor in tensors]
    numbers = [match.groups() for match in matched if match is not None]
    if len(numbers) < len(tensors):
        return f"{first} … ×{len(tensors)}"
    ranges = [_range({int(number) for number in place}) for place in zip(*numbers, strict=True)]
    named = "".join(part + number for part, number in zip(parts, [*ranges, ""], strict=True))
    return f"{named} ×{len(tensors)}"


def _range(numbers: set[int]) -> str:
    """`0–31`, or `0,2,5`, or `0,2,…,30` for numbers with gaps."""
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return str(ordered[0])
    if ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}–{ordered[-1]}"
    if len(ordered) <= _LISTED:
        return ",".join(map(str, ordered))
    return f"{ordered[0]},{ordered[1]},…,{ordered[-1]}"


Tensors = Sequence[TensorStatistics]


def _over(of: Callable[[TensorStatistics], Any], reduced: Callable[[list[Any]], Any]) -> Callable[[Tensors], Any]:
    """What `reduced` makes of the known values of all tensors; None where none is known."""

    def figure(tensors: Tensors) -> Any:
        known = [value for tensor in tensors if (value := of(tensor)) is not None]
        return reduced(known) if known else None

    return figure


def _finite(tensor: TensorStatistics) -> int:
    """How many of its values are numbers."""
    return tensor.count - (tensor.nan or 0) - (tensor.inf or 0)


def _mean_of(name: str) -> Callable[[Tensors], float | None]:
    """The mean over all values, each tensor with the weight of its own."""

    def mean(tensors: Tensors) -> float | None:
        known = [(value, _finite(tensor)) for tensor in tensors if (value := getattr(tensor, name)) is not None]
        count = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / count if count else None

    return mean


def _deviation(tensors: Tensors) -> float | None:
    """The standard deviation of all values together."""
    if len(tensors) == 1:
        return tensors[0].std
    middle = _mean_of("mean")(tensors)
    known = [(t.std, t.mean, _finite(t)) for t in tensors if t.std is not None and t.mean is not None]
    count = sum(weight for _, _, weight in known)
    if middle is None or not count:
        return None
    return sqrt(sum(weight * (std * std + (mean - middle) ** 2) for std, mean, weight in known) / count)


def _zero_share(tensors: Tensors) -> float | None:
    known = [(tensor.zeros, tensor.count) for tensor in tensors if tensor.zeros is not None]
    count = sum(whole for _, whole in known)
    return sum(zeros for zeros, _ in known) / count if count else None


def _worst(format: str, *scopes: str) -> Callable[[Tensors], float | None]:
    """The least ratio among the tensors, each with the first of `scopes` that it has; infinite where all is kept."""

    def ratio(tensor: TensorStatistics) -> float | None:
        there = {each.scope: each for each in tensor.roundings if each.format == format}
        found = next((there[scope] for scope in scopes if scope in there), None)
        return None if found is None else inf if found.exact else found.sqnr_db

    return _over(ratio, min)


def _bits(tensor: TensorStatistics) -> float | None:
    """The bits it needs; infinite where eight are not enough."""
    if tensor.bits_for_db is None:
        return None
    return inf if tensor.bits_needed is None else tensor.bits_needed


def _spectral(name: str) -> Callable[[Tensors], float | None]:
    return _over(lambda tensor: tensor.spectral and getattr(tensor.spectral, name), max)


FIGURES: dict[str, Callable[[Tensors], Any]] = {
    "name": lambda tensors: shown_name(tensors[0]),
    "dtype": lambda tensors: tensors[0].dtype,
    "count": _over(attrgetter("count"), sum),
    "bytes": _over(attrgetter("bytes"), sum),
    "min": _over(attrgetter("min"), min),
    "max": _over(attrgetter("max"), max),
    "mean": _mean_of("mean"),
    "std": _deviation,
    "kurtosis": _over(attrgetter("kurtosis"), max),
    "l2": _over(attrgetter("l2"), lambda norms: sqrt(sum(norm * norm for norm in norms))),
    "zeros": _zero_share,
    "nan": _over(attrgetter("nan"), sum),
    "entropy": _mean_of("entropy_bits"),
    "int8": _worst("int8", "channel", "tensor"),
    "int4": _worst("int4", "group128", "tensor"),
    "bits": _over(_bits, max),
    "norm": _spectral("norm"),
    "bound": _spectral("norm_error"),
    "rank": _spectral("stable_rank"),
    "effective": _spectral("effective_rank"),
}
"""What a line says of its tensors, and can be sorted by: sums, extremes, means over all values, worst cases."""
