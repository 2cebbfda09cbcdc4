"""What holds for all tensors of a model: totals, families of the same kind, outliers among them, duplicates."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from assay.document.weights import Family, Outlier, TensorStatistics, WeightsReport, WeightTotals

Key = TypeVar("Key")

FEWEST = 5
"""Siblings that a family needs before one of them can be called an outlier."""
FAR = 6.0
"""Robust standard deviations from the family's median that make an outlier."""
LEAST = 0.02
"""A spread below this share of the median counts as this: siblings that hardly differ have no outliers."""
_FIGURES = ("std", "mean", "kurtosis", "max", "min", "entropy_bits", "zeros")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_])\d+(?![A-Za-z0-9_])")


def summarize(
    tensors: list[TensorStatistics],
    path: str = "",
    format: str = "",
    kernel: str = "",
    notes: Iterable[str] = (),
    files_lost: Iterable[str] = (),
) -> WeightsReport:
    """The report of a checkpoint from its tensors; those with problems are listed among the failures."""
    families, files_lost = families_of(tensors), tuple(files_lost)
    dtypes = _places(tensor.dtype for tensor in tensors)
    lost = [f"{tensor.names[0]}: {tensor.problem}" for tensor in tensors if tensor.problem]
    return WeightsReport(
        path=path,
        format=format,
        kernel=kernel,
        tensors=tensors,
        by_dtype={dtype: _totals(tensors, places) for dtype, places in dtypes.items()},
        families=families,
        outliers=outliers_of(tensors, families),
        duplicates=duplicates_of(tensors),
        notes=tuple(notes),
        failures=(*files_lost, *lost),
        files_lost=files_lost,
    )


def folded(name: str) -> str:
    """A name with its numbers folded: `folded("layers.3.mlp.up_proj.weight") == "layers.#.mlp.up_proj.weight"`."""
    return _NUMBER.sub("#", name)


def families_of(tensors: Sequence[TensorStatistics]) -> list[Family]:
    """Tensors by folded name, in order of appearance."""
    places = _places(folded(tensor.names[0]) for tensor in tensors)
    return [Family(name, _totals(tensors, members), tuple(members)) for name, members in places.items()]


def outliers_of(tensors: Sequence[TensorStatistics], families: Sequence[Family]) -> list[Outlier]:
    """Tensors far from the median of their family, farthest first; spread is taken from the median deviation."""
    found = [
        outlier
        for family in families
        if len(family.tensors) >= FEWEST
        for figure in _FIGURES
        for outlier in _far(tensors, family, figure)
    ]
    return sorted(found, key=lambda outlier: -outlier.deviations)


def duplicates_of(tensors: Sequence[TensorStatistics]) -> list[tuple[int, ...]]:
    """Places of tensors of one dtype and shape with the same bytes."""
    places = _places((tensor.dtype, tensor.shape, tensor.content) for tensor in tensors)
    return [tuple(members) for (*_, content), members in places.items() if content and len(members) > 1]


def _far(tensors: Sequence[TensorStatistics], family: Family, figure: str) -> Iterable[Outlier]:
    values = {place: getattr(tensors[place], figure) for place in family.tensors}
    known = {place: float(value) for place, value in values.items() if value is not None}
    if len(known) < FEWEST:
        return
    typical = statistics.median(known.values())
    spread = 1.4826 * statistics.median(abs(value - typical) for value in known.values())
    floor = LEAST * abs(typical)
    for place, value in known.items():
        away = abs(value - typical) / max(spread, floor) if max(spread, floor) else 0.0
        if away > FAR:
            yield Outlier(place, family.name, figure, value, typical, away)


def _places(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Where each of the keys stands, in order of appearance."""
    places: dict[Key, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    return places


def _totals(tensors: Sequence[TensorStatistics], places: Sequence[int]) -> WeightTotals:
    members = [tensors[place] for place in places]
    return WeightTotals(
        len(members), sum(tensor.count for tensor in members), sum(tensor.bytes for tensor in members)
    )
