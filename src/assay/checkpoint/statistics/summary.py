"""Results across all tensors of a model: totals, families of similar tensors, outliers and duplicates."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from assay.analysis.name_ranges import family_names
from assay.document.provenance import Counted, Modelled, Provenance
from assay.document.roles import ROLES
from assay.document.weights import Family, Outlier, TensorStatistics, WeightsReport, WeightTotals

Key = TypeVar("Key")

MIN_FAMILY_SIZE = 5
"""Families with fewer tensors have no outliers."""
OUTLIER_DEVIATIONS = 6.0
"""A tensor further from the median of its family than this many robust standard deviations is an outlier."""
MIN_SPREAD = 0.02
"""Lower limit of the spread, as a share of the median: nearly equal tensors have no outliers."""
_COMPARED = ("std", "mean", "kurtosis", "max", "min", "entropy_bits", "zeros")

_EXACT = Counted("all stored values")
_COLUMNS: dict[str, Provenance] = {
    "tensors": _EXACT,
    "tensors.spectral": Modelled(
        "iterations; `norm_error` bounds the distance to a true singular value, usually the largest; the effective "
        "rank is between two bounds, which are equal for matrices of at most 128 rows or columns"
    ),
    "by_dtype": _EXACT,
    "by_role": _EXACT,
    "families": _EXACT,
    "outliers": _EXACT,
}


def summarize(
    tensors: list[TensorStatistics],
    path: str = "",
    format: str = "",
    kernel: str = "",
    notes: Iterable[str] = (),
    files_lost: Iterable[str] = (),
) -> WeightsReport:
    """The report of a checkpoint from the statistics of its tensors; `failures` lists those with a problem."""
    families, files_lost = families_of(tensors), tuple(files_lost)
    dtypes, roles = (_indices_by_key(getattr(tensor, key) for tensor in tensors) for key in ("dtype", "role"))
    problems = [f"{tensor.names[0]}: {tensor.problem}" for tensor in tensors if tensor.problem]
    return WeightsReport(
        path=path,
        format=format,
        kernel=kernel,
        tensors=tensors,
        by_dtype={dtype: _totals(tensors, indices) for dtype, indices in dtypes.items()},
        by_role={role: _totals(tensors, roles[role]) for role in ROLES if role in roles},
        families=families,
        outliers=outliers_of(tensors, families),
        duplicates=duplicates_of(tensors),
        notes=tuple(notes),
        failures=(*files_lost, *problems),
        files_lost=files_lost,
        columns=_COLUMNS,
    )


def families_of(tensors: Sequence[TensorStatistics]) -> list[Family]:
    """The families of tensors with the same folded name, in order of appearance."""
    names = family_names([row.names[0] for row in tensors], [(row.dtype, row.shape, row.role) for row in tensors])
    families = _indices_by_key(names)
    return [Family(name, _totals(tensors, members), tuple(members)) for name, members in families.items()]


def outliers_of(tensors: Sequence[TensorStatistics], families: Sequence[Family]) -> list[Outlier]:
    """Tensors far from the median of their family, farthest first; the spread is the median absolute deviation."""
    outliers = [
        outlier
        for family in families
        if len(family.tensors) >= MIN_FAMILY_SIZE
        for figure in _COMPARED
        for outlier in _far(tensors, family, figure)
    ]
    return sorted(outliers, key=lambda outlier: -outlier.deviations)


def duplicates_of(tensors: Sequence[TensorStatistics]) -> list[tuple[int, ...]]:
    """Groups of tensors (by index) with the same dtype, shape and bytes."""
    groups = _indices_by_key((tensor.dtype, tensor.shape, tensor.content) for tensor in tensors)
    return [tuple(members) for (*_, content), members in groups.items() if content and len(members) > 1]


def _far(tensors: Sequence[TensorStatistics], family: Family, figure: str) -> Iterable[Outlier]:
    values = {index: getattr(tensors[index], figure) for index in family.tensors}
    numbers = {index: float(value) for index, value in values.items() if value is not None}
    if len(numbers) < MIN_FAMILY_SIZE:
        return
    typical = statistics.median(numbers.values())
    spread = 1.4826 * statistics.median(abs(value - typical) for value in numbers.values())
    floor = MIN_SPREAD * abs(typical)
    for index, value in numbers.items():
        deviations = abs(value - typical) / max(spread, floor) if max(spread, floor) else 0.0
        if deviations > OUTLIER_DEVIATIONS:
            yield Outlier(index, family.name, figure, value, typical, deviations)


def _indices_by_key(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """The indices of each distinct key, in order of appearance."""
    indices: dict[Key, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        indices[key].append(index)
    return indices


def _totals(tensors: Sequence[TensorStatistics], indices: Sequence[int]) -> WeightTotals:
    members = [tensors[index] for index in indices]
    return WeightTotals(
        len(members), sum(tensor.count for tensor in members), sum(tensor.bytes for tensor in members)
    )
