"""The rows of the tensor table: one per tensor, or one for the same tensor of all repeated blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from operator import attrgetter
from typing import Any

from assay.analysis.name_ranges import fold_names
from assay.document.weights import Outlier, TensorStatistics, WeightsReport
from assay.findings.tensor_assessments import assess_tensor, most_sensitive

_NOTABLE = 1.5
"""An outlier is named in its row if its value is the median times or divided by at least this."""


@dataclass(frozen=True)
class TensorRow:
    """Tensors of one dtype and shape whose names differ only in numbers; one tensor if the table is not folded."""

    name: str
    tensors: Sequence[TensorStatistics]
    """In numerical order."""
    labels: Sequence[str] = ("",)
    """The numbers that distinguish each tensor: `7`."""
    outliers: Sequence[Outlier | None] = (None,)
    """For each tensor, the statistic that is furthest from the others; None if none is far."""


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
            map(shown_name, tensors), [(tensor.dtype, tensor.shape, tensor.role) for tensor in tensors], whole=True
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


def _over(of: Callable[[TensorStatistics], Any], reduced: Callable[[list[Any]], Any]) -> Callable[[Tensors], Any]:
    """A function that reads `of` from every tensor and reduces the known values; None if none is known."""

    def figure(tensors: Tensors) -> Any:
        known = [value for tensor in tensors if (value := of(tensor)) is not None]
        return reduced(known) if known else None

    return figure


def _finite(tensor: TensorStatistics) -> int:
    """The number of finite values."""
    return tensor.count - (tensor.nan or 0) - (tensor.inf or 0)


def _mean_of(name: str) -> Callable[[Tensors], float | None]:
    """A function that returns the mean of a statistic over all tensors, weighted by their finite values."""

    def mean(tensors: Tensors) -> float | None:
        known = [(value, _finite(tensor)) for tensor in tensors if (value := getattr(tensor, name)) is not None]
        count = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / count if count else None

    return mean


def _deviation(tensors: Tensors) -> float | None:
    """The standard deviation over the values of all tensors."""
    if len(tensors) == 1:
        return tensors[0].std
    overall = _mean_of("mean")(tensors)
    known = [(t.std, t.mean, _finite(t)) for t in tensors if t.std is not None and t.mean is not None]
    count = sum(weight for _, _, weight in known)
    if overall is None or not count:
        return None
    return sqrt(sum(weight * (std * std + (mean - overall) ** 2) for std, mean, weight in known) / count)


def _zero_share(tensors: Tensors) -> float | None:
    known = [(tensor.zeros, tensor.count) for tensor in tensors if tensor.zeros is not None]
    count = sum(whole for _, whole in known)
    return sum(zeros for zeros, _ in known) / count if count else None


def _worst(format: str, *scopes: str) -> Callable[[Tensors], float | None]:
    """A function that returns the lowest SQNR of the tensors in `format`; infinite if rounding is lossless.

    For each tensor the first of `scopes` counts that was computed.
    """

    def ratio(tensor: TensorStatistics) -> float | None:
        by_scope = {each.scope: each for each in tensor.roundings if each.format == format}
        rounding = next((by_scope[scope] for scope in scopes if scope in by_scope), None)
        return None if rounding is None else inf if rounding.exact else rounding.sqnr_db

    return _over(ratio, min)


def _bits(tensor: TensorStatistics) -> float | None:
    """The integer bits the tensor needs; infinite if eight are not enough."""
    if tensor.bits_for_db is None:
        return None
    return inf if tensor.bits_needed is None else tensor.bits_needed


def _prunable(tensors: Tensors) -> float | None:
    """The mean pruning potential over all weights of the tensors with a known one."""
    known = [(share, t.count) for t in tensors if (share := assess_tensor(t).pruning_potential) is not None]
    count = sum(weight for _, weight in known)
    return sum(share * weight for share, weight in known) / count if count else None


def sensitivity(tensors: Tensors) -> str | None:
    """The highest quantization sensitivity of the tensors; None if any is unknown."""
    return most_sensitive([assess_tensor(tensor).quantization_sensitivity for tensor in tensors]) or None


def recommendation(tensors: Tensors) -> str | None:
    """The most frequent recommendation for the tensors, with how often, unless all have it; or why it is unknown."""
    assessed = map(assess_tensor, tensors)
    texts = (one.recommendation or (f"unknown: {one.unknown}" if one.unknown else "") for one in assessed)
    ((text, count),) = Counter(texts).most_common(1)
    return (text if count == len(tensors) else f"{text} ({count} of {len(tensors)})") if text else None


def _spectral(name: str) -> Callable[[Tensors], float | None]:
    return _over(lambda tensor: tensor.spectral and getattr(tensor.spectral, name), max)


STATISTICS: dict[str, Callable[[Tensors], Any]] = {
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
    "coded": _over(attrgetter("entropy_bytes"), sum),
    "int8": _worst("int8", "channel", "tensor"),
    "int4": _worst("int4", "group128", "tensor"),
    "bits": _over(_bits, max),
    "prunable": _prunable,
    "norm": _spectral("norm"),
    "bound": _spectral("norm_error"),
    "rank": _spectral("stable_rank"),
    "effective": _spectral("effective_rank"),
}
"""The statistics of a row's tensors, also its sort keys: sums, extremes, means over all values, worst cases."""
