"""The rows of the tensor table: one per tensor, or one for the same tensor of all repeated blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import hypot, inf, sqrt
from operator import attrgetter
from typing import Any

from assay.analysis.name_ranges import fold_names
from assay.document.assessments import TensorAssessment
from assay.document.weights import Outlier, TensorStatistics, WeightsReport
from assay.findings.tensor_assessments import assess_tensor, most_sensitive

_NOTABLE = 1.5
"""An outlier is named in its row if its value is the median times or divided by at least this."""

N_OF_M = ("1:4", "2:4", "4:8")
ROUNDINGS = (
    ("bfloat16", "none"), ("float8_e4m3fn", "tensor"), ("float8_e5m2", "tensor"), ("int8", "tensor"),
    ("int4", "tensor"), ("int8", "channel"), ("int4", "channel"), ("int8", "group128"), ("int4", "group128"),
)  # fmt: skip
NORMS = ("min", "max", "mean", "std", "dead")


@dataclass(frozen=True)
class TensorRow:
    """Tensors of one dtype and shape whose names differ only in numbers; one tensor if the table is not folded."""

    name: str
    tensors: Sequence[TensorStatistics]
    """In numerical order."""
    labels: Sequence[str] = ("",)
    """The part of each tensor's name that distinguishes it: `layers.7`."""
    outliers: Sequence[Outlier | None] = (None,)
    """For each tensor, the statistic that is furthest from the others; None if none is far."""

    @cached_property
    def assessments(self) -> list[TensorAssessment]:
        """What each tensor allows."""
        return [assess_tensor(tensor) for tensor in self.tensors]


def lines_of(report: WeightsReport, *, full: bool) -> list[TensorRow]:
    """The rows in the order of the file; with `full`, one row per tensor."""
    tensors = report.tensors
    if full:
        return [TensorRow(shown_name(tensor), (tensor,)) for tensor in tensors]
    furthest = {outlier.tensor: outlier for outlier in reversed(report.outliers) if _is_notable(outlier)}
    return [
        TensorRow(
            folded.counted,
            [tensors[at] for at in folded.members],
            folded.labels,
            list(map(furthest.get, folded.members)),
        )
        for folded in fold_names(
            map(shown_name, tensors), [(tensor.dtype, tensor.shape, tensor.role) for tensor in tensors], indices=True
        )
    ]


def _is_notable(outlier: Outlier) -> bool:
    """Whether the value is a clear multiple or fraction of the median; the list of outliers contains all."""
    ratio = outlier.value / outlier.typical if outlier.typical else 0.0
    return ratio >= _NOTABLE or 0 < ratio <= 1 / _NOTABLE


def sorted_lines(lines: Iterable[TensorRow], key: str) -> list[TensorRow]:
    """The rows by a statistic, largest first and unknown last; names and dtypes sort alphabetically."""
    statistic = STATISTICS[key]
    pairs = [(statistic(line.tensors), line) for line in lines]
    texts = any(isinstance(value, str) for value, _ in pairs)
    known = sorted((pair for pair in pairs if pair[0] is not None), key=lambda pair: pair[0], reverse=not texts)
    return [line for _, line in known] + [line for value, line in pairs if value is None]


def shown_name(tensor: TensorStatistics) -> str:
    """The tensor's first name, or `(unnamed)` if it has none."""
    return tensor.names[0] if tensor.names and tensor.names[0] else "(unnamed)"


Tensors = Sequence[TensorStatistics]


def over(of: Callable[[TensorStatistics], Any], reduced: Callable[[list[Any]], Any]) -> Callable[[Tensors], Any]:
    """A function that reads `of` from every tensor and reduces the known values; None if none is known."""

    def figure(tensors: Tensors) -> Any:
        known = [value for tensor in tensors if (value := of(tensor)) is not None]
        return reduced(known) if known else None

    return figure


def _finite(tensor: TensorStatistics) -> int:
    """The number of finite values."""
    return tensor.numbers - (tensor.nan or 0) - (tensor.inf or 0)


def weighted_mean(
    of: Callable[[TensorStatistics], Any], weight: Callable[[TensorStatistics], int] = _finite
) -> Callable[[Tensors], float | None]:
    """A function that returns the mean of a statistic over all tensors, weighted by their finite values."""

    def mean(tensors: Tensors) -> float | None:
        known = [(value, weight(tensor)) for tensor in tensors if (value := of(tensor)) is not None]
        count = sum(each for _, each in known)
        return sum(value * (each / count) for value, each in known) if count else None

    return mean


def _deviation(tensors: Tensors) -> float | None:
    """The standard deviation over the values of all tensors."""
    if len(tensors) == 1:
        return tensors[0].std
    overall = weighted_mean(attrgetter("mean"))(tensors)
    known = [(t.std, t.mean, _finite(t)) for t in tensors if t.std is not None and t.mean is not None]
    count = sum(weight for _, _, weight in known)
    if overall is None or not count:
        return None
    return hypot(*(sqrt(weight / count) * hypot(std, mean - overall) for std, mean, weight in known))


def share_of(name: str) -> Callable[[Tensors], float | None]:
    """A function that returns a number of values as a share of all values of the tensors."""

    def share(tensor: TensorStatistics) -> float | None:
        number = getattr(tensor, name)
        return None if number is None or not tensor.count else number / tensor.numbers

    return weighted_mean(share, attrgetter("count"))


def worst_rounding(format: str, *scopes: str) -> Callable[[Tensors], float | None]:
    """A function that returns the lowest `Rounding.level` of the tensors in `format`.

    For each tensor the first of `scopes` counts that was computed.
    """

    def ratio(tensor: TensorStatistics) -> float | None:
        by_scope = {each.scope: each for each in tensor.roundings if each.format == format}
        rounding = next((by_scope[scope] for scope in scopes if scope in by_scope), None)
        return None if rounding is None else rounding.level

    return over(ratio, min)


def _bits(tensor: TensorStatistics) -> float | None:
    """The integer bits the tensor needs; infinite if eight are not enough."""
    if tensor.bits_for_db is None:
        return None
    return inf if tensor.bits_needed is None else tensor.bits_needed


def mean_assessed(name: str, tensors: Tensors, assessments: Iterable[TensorAssessment]) -> float | None:
    """The mean of a figure of the assessments over all weights of the tensors that have it."""
    figures = {id(tensor): getattr(one, name) for tensor, one in zip(tensors, assessments, strict=True)}
    return weighted_mean(lambda tensor: figures[id(tensor)], attrgetter("count"))(tensors)


def assessed(name: str) -> Callable[[Tensors], float | None]:
    """A function that assesses tensors and returns the mean of a figure."""
    return lambda tensors: mean_assessed(name, tensors, map(assess_tensor, tensors))


def sensitivity(assessments: Sequence[TensorAssessment]) -> str | None:
    """The highest quantization sensitivity of the tensors; None if any is unknown."""
    return most_sensitive([one.quantization_sensitivity for one in assessments]) or None


def recommendation(assessments: Sequence[TensorAssessment]) -> str | None:
    """The most frequent recommendation for the tensors, with how often, unless all have it; or why it is unknown."""
    texts = (one.recommendation or (f"unknown: {one.unknown}" if one.unknown else "") for one in assessments)
    ((text, count),) = Counter(texts).most_common(1)
    return (text if count == len(assessments) else f"{text} ({count} of {len(assessments)})") if text else None


def _spectral(name: str) -> Callable[[Tensors], float | None]:
    return over(lambda tensor: tensor.spectral and getattr(tensor.spectral, name), max)


def _effective_rank(tensors: Tensors) -> tuple[float, float] | None:
    """The bounds of the largest effective rank."""
    least, most = (_spectral(f"effective_rank_{bound}")(tensors) for bound in ("least", "most"))
    return None if least is None or most is None else (least, most)


STATISTICS: dict[str, Callable[[Tensors], Any]] = {
    "name": lambda tensors: shown_name(tensors[0]),
    "dtype": lambda tensors: tensors[0].dtype,
    "count": over(attrgetter("count"), sum),
    "bytes": over(attrgetter("bytes"), sum),
    "min": over(attrgetter("min"), min),
    "max": over(attrgetter("max"), max),
    "mean": weighted_mean(attrgetter("mean")),
    "std": _deviation,
    "kurtosis": over(attrgetter("kurtosis"), max),
    "l2": over(attrgetter("l2"), lambda norms: hypot(*norms)),
    "zeros": share_of("zeros"),
    "nan": over(attrgetter("nan"), sum),
    "inf": over(attrgetter("inf"), sum),
    "entropy": weighted_mean(attrgetter("entropy_bits")),
    "coded": over(attrgetter("entropy_bytes"), sum),
    "int8": worst_rounding("int8", "channel", "tensor"),
    "int4": worst_rounding("int4", "group128", "tensor"),
    "bits": over(_bits, max),
    "prunable": assessed("pruning_potential"),
    "norm": _spectral("norm"),
    "bound": _spectral("norm_error"),
    "rank": _spectral("stable_rank"),
    "effective": _effective_rank,
}
"""The statistics of a row's tensors, also its sort keys: sums, extremes, means over all values, worst cases."""
