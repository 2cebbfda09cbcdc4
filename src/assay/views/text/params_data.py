"""All statistics of all tensors as one flat table, for CSV and JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from assay import units
from assay.document.document import Document
from assay.document.weights import PRUNE_SHARES, QUANTILES, TensorStatistics
from assay.findings.tensor_assessments import assess_tensor
from assay.views.tables import Column, Table
from assay.views.text.params import ParamsOptions, chosen_lines
from assay.views.text.params_lines import N_OF_M, NORMS, ROUNDINGS, shown_name
from assay.views.text.params_more import decibels

_PLAIN = (
    "dtype", "count", "bytes", "alignment", "nan", "inf", "zeros", "near_zeros", "denormals", "min", "max", "mean",
    "std", "skewness", "kurtosis", "l1", "l2", "near_zero_below", "entropy_bits", "entropy_bytes", "distinct",
    "bits_needed",
)  # fmt: skip
_ASSESSED = (
    "pruning_potential", "structured_potential", "compressibility", "quantization_sensitivity", "recommendation",
)  # fmt: skip
_SPECTRAL = ("norm", "norm_error", "stable_rank", "effective_rank_least", "effective_rank_most")

_Value = Callable[[TensorStatistics], Any]


def params_table(document: Document, options: ParamsOptions = ParamsOptions()) -> Table:  # noqa: B008  it is frozen
    """One row per selected tensor; a lossless rounding is `exact`, an unknown value is empty."""
    weights = document.weights
    assert weights is not None
    families = {id(weights.tensors[row]): family.name for family in weights.families for row in family.tensors}
    columns: dict[str, _Value] = {
        "tied names": lambda tensor: " ".join(tensor.names[1:]) or None,
        "family": lambda tensor: families.get(id(tensor)),
        "role": lambda tensor: tensor.role or None,
        "shape": lambda tensor: units.shape(tensor.shape),
        **_COLUMNS,
    }
    tensors = [tensor for line in chosen_lines(weights, options)[0] for tensor in line.tensors]
    name = Column[TensorStatistics]("name", shown_name, name="tensor")
    return Table([name, *(Column(title, value) for title, value in columns.items())], tensors)


def _quantile(index: int) -> _Value:
    return lambda tensor: tensor.quantiles[index] if tensor.quantiles else None


def _kept(scheme: str) -> _Value:
    return lambda tensor: tensor.n_of_m.get(scheme)


def _pruned(index: int) -> _Value:
    return lambda tensor: tensor.pruning[index].energy if tensor.pruning else None


def _attribute(part: str, name: str) -> _Value:
    """A function that returns `tensor.part.name`; None if `tensor.part` is None."""

    def value(tensor: TensorStatistics) -> Any:
        struct = getattr(tensor, part)
        return None if struct is None else getattr(struct, name)

    return value


def _assessed(name: str) -> _Value:
    """A function that returns a field of the tensor's assessment; None if it is unknown."""

    def value(tensor: TensorStatistics) -> Any:
        found = getattr(assess_tensor(tensor), name)
        return None if found == "" else found

    return value


def _rounded(format: str, scope: str) -> _Value:
    def value(tensor: TensorStatistics) -> float | str | None:
        rounding = next((each for each in tensor.roundings if (each.format, each.scope) == (format, scope)), None)
        if rounding is None or rounding.level is None:
            return None
        return decibels(rounding.level) if rounding.sqnr_db is None else rounding.sqnr_db

    return value


_COLUMNS: dict[str, _Value] = {
    **{name: attrgetter(name) for name in _PLAIN},
    **{f"quantile {100 * share:g}": _quantile(index) for index, share in enumerate(QUANTILES)},
    **{f"kept {scheme}": _kept(scheme) for scheme in N_OF_M},
    **{f"kept without {100 * share:g} %": _pruned(index) for index, share in enumerate(PRUNE_SHARES)},
    **{f"{part} {name}": _attribute(part, name) for part in ("rows", "columns") for name in NORMS},
    **{f"{format} {scope} db": _rounded(format, scope) for format, scope in ROUNDINGS},
    **{f"spectral {name}": _attribute("spectral", name) for name in _SPECTRAL},
    **{name: _assessed(name) for name in _ASSESSED},
    "content": lambda tensor: tensor.content or None,
    "problem": lambda tensor: tensor.problem or None,
    "note": lambda tensor: tensor.note or None,
}
