"""The columns of the tensor table that are shown only if they are named: every other value of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import isinf
from operator import attrgetter
from typing import Any

from assay import units
from assay.document.weights import PRUNE_SHARES, QUANTILES, TensorStatistics
from assay.views.tables import Column, percent
from assay.views.text.params_lines import (
    N_OF_M,
    NORMS,
    ROUNDINGS,
    TensorRow,
    Tensors,
    assessed,
    over,
    share_of,
    weighted_mean,
    worst_rounding,
)

_NORM_REDUCTIONS: dict[str, Callable[[list[Any]], Any]] = {"min": min, "dead": sum}
"""How the norms of several tensors become one value; otherwise the largest."""
_HIDDEN = 9
"""As early as columns are hidden if the terminal is narrow."""


def decibels(level: float | None) -> str:
    """A `Rounding.level`: a ratio in dB, `exact` or `overflows`."""
    if level is not None and isinf(level):
        return "exact" if level > 0 else "overflows"
    return units.ratio(level)


def more_columns() -> Iterator[Column[TensorRow]]:
    """All of them; those of a group can also be named together, as `quantiles`."""
    yield _number("l1", over(attrgetter("l1"), sum))
    yield _number("skewness", over(attrgetter("skewness"), lambda values: max(values, key=abs)))
    yield _number("near zeros", share_of("near_zeros"), percent)
    yield _number("near zero below", over(attrgetter("near_zero_below"), max))
    yield _number("denormals", over(attrgetter("denormals"), sum), units.exact)
    yield _number("distinct", over(attrgetter("distinct"), max), units.exact)
    yield _number("alignment", over(attrgetter("alignment"), min), units.exact)
    yield from _group("quantiles", (_quantile(at) for at in range(len(QUANTILES))))
    yield from _group("pruning", map(_pruned, PRUNE_SHARES))
    yield from _group("n of m", map(_kept, N_OF_M))
    for part in ("rows", "columns"):
        yield from _group(f"{part} norms", (_norm(part, name) for name in ("count", *NORMS)))
    yield from _group("roundings", (_rounding(format, scope) for format, scope in ROUNDINGS))
    yield _number("structured potential", assessed("structured_potential"), percent)
    yield _number("compressibility", _compressibility, percent)
    yield _text("tied names", lambda tensor: " = ".join(tensor.names[1:]))
    yield _text("content", attrgetter("content"))


def _number(
    title: str, figure: Callable[[Tensors], Any], show: Callable[[Any], str] = units.ratio
) -> Column[TensorRow]:
    return Column(title, lambda row: figure(row.tensors), "right", show, drops=_HIDDEN)


def _text(title: str, of: Callable[[TensorStatistics], str]) -> Column[TensorRow]:
    """A column of a text; unknown if the tensors of a row differ in it."""

    def text(row: TensorRow) -> str | None:
        texts = {of(tensor) for tensor in row.tensors}
        return (texts.pop() or None) if len(texts) == 1 else None

    return Column(title, text, shrinks=True, drops=_HIDDEN)


def _group(name: str, columns: Iterable[Column[TensorRow]]) -> Iterator[Column[TensorRow]]:
    return (replace(column, group=name) for column in columns)


def _quantile(at: int) -> Column[TensorRow]:
    """Of several tensors the lowest of the lower quantiles, the highest of the upper ones, the mean of medians."""
    share = QUANTILES[at]

    def of(tensor: TensorStatistics) -> float | None:
        return tensor.quantiles[at] if tensor.quantiles else None

    figure = weighted_mean(of) if share == 0.5 else over(of, min if share < 0.5 else max)
    return replace(_number(f"p{100 * share:g}", figure), name=f"q{100 * share:g}")


def _pruned(share: float) -> Column[TensorRow]:
    """The share of the sum of squares that is kept; of several tensors the smallest."""

    def of(tensor: TensorStatistics) -> float | None:
        return next((one.energy for one in tensor.pruning if one.share == share), None)

    return _number(f"kept at {100 * share:g} % zero", over(of, min), percent)


def _kept(scheme: str) -> Column[TensorRow]:
    return _number(f"kept {scheme}", over(lambda tensor: tensor.n_of_m.get(scheme), min), percent)


def _norm(part: str, name: str) -> Column[TensorRow]:
    def of(tensor: TensorStatistics) -> Any:
        norms = getattr(tensor, part)
        return None if norms is None else getattr(norms, name)

    show = units.exact if name in ("count", "dead") else units.ratio
    return _number(f"{part} {name}", over(of, _NORM_REDUCTIONS.get(name, max)), show)


def _rounding(format: str, scope: str) -> Column[TensorRow]:
    return _number(f"{format} {scope} dB", worst_rounding(format, scope), decibels)


def _compressibility(tensors: Tensors) -> float | None:
    """The bytes that an entropy coder needs, as a share of those of the tensors for which they are known."""
    known = [tensor for tensor in tensors if tensor.entropy_bytes is not None and tensor.bytes]
    return (
        sum(tensor.entropy_bytes or 0 for tensor in known) / sum(tensor.bytes for tensor in known) if known else None
    )
