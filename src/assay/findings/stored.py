"""Helpers for rules about stored weights: selecting tensors with statistics, naming them and summing their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from assay.document.findings import Gain
from assay.document.provenance import Counted, Figure
from assay.document.roles import PARAMETER
from assay.document.weights import Rounding, TensorStatistics
from assay.findings.catalogue import rule
from assay.findings.facts import ModelFacts
from assay.findings.gains import bytes_gain
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import STATISTICS
from assay.findings.rule import RuleMatch

BY_BYTES = Counted("all values of the stored tensors")
MIN_ELEMENTS = 64
"""Elements; smaller tensors are more like settings than weights."""
OUTLIER_DB, OUTLIER_GAIN_DB = 30.0, 10.0
"""A matrix has outlying rows if int8 keeps fewer dB, and with one scale per row at least as many and so many more."""
MIN_ZERO_SHARE = 0.7
"""The share of zeros from which a sparse format is worth its work."""
MOSTLY_ZERO = 0.9
"""The share of zeros from which sparse kernels are faster than dense ones."""
MIN_ENERGY_KEPT = 0.999999
"""The share of the sum of squares above which nothing is lost."""
_WEIGHT_NAME = re.compile(r"(weight|proj|kernel)[^.]*$")
_OTHER_NAME = re.compile(
    r"(bias\w*|norm\d*|pos\w*_emb\w*|emb\w*_pos\w*)(\.weight)?$|(^|[._])pos(ition\w*|_\w*)?$|tokens?$"
)
"""The end of the name of a parameter that is not a layer's weight: a bias, a norm, positions or learned tokens."""
_FLOATS = ("float16", "bfloat16", "float32", "float64")

weights_rule = partial(rule, needs=(STATISTICS,))
"""The decorator for a rule that needs weight statistics."""


def rows(facts: ModelFacts) -> list[TensorStatistics]:
    """The model's tensors that have statistics."""
    return [row for row in facts.stored if row.zeros is not None]


def matrices(facts: ModelFacts) -> list[TensorStatistics]:
    """The tensors with statistics that are weight matrices."""
    return [row for row in rows(facts) if is_matrix(row)]


def is_matrix(row: TensorStatistics) -> bool:
    """Whether it is a floating-point tensor with rows of several values that is a layer's weight."""
    return is_floating(row) and has_rows(row) and row.count >= MIN_ELEMENTS and _is_weight(row)


def has_rows(row: TensorStatistics) -> bool:
    """Whether it has at least two dimensions, and several values in each row."""
    return len(row.shape) > 1 and row.count > row.shape[0]


def may_be_weight(row: TensorStatistics) -> bool:
    """Whether its role is that of a parameter, or unknown."""
    return row.role in ("", PARAMETER)


def _is_weight(row: TensorStatistics) -> bool:
    """Whether it is a parameter that is not named otherwise; if its role is unknown, `q_proj.weight` and the like."""
    name = row.names[0].lower()
    named = row.role == PARAMETER or bool(_WEIGHT_NAME.search(name))
    return may_be_weight(row) and named and not _OTHER_NAME.search(name)


def is_constant(row: TensorStatistics) -> bool:
    """Whether all values are equal."""
    return row.min is not None and row.min == row.max


def is_floating(row: TensorStatistics) -> bool:
    """Whether the dtype is a floating-point type of at least 16 bits, which needs no scale."""
    return row.dtype in _FLOATS


def rounding_of(row: TensorStatistics, format: str, *scopes: str) -> Rounding | None:
    """The tensor's precision in a number format, with the first of `scopes` that was computed; None without any."""
    by_scope = {each.scope: each for each in row.roundings if each.format == format}
    return next((by_scope[scope] for scope in scopes if scope in by_scope), None)


def zero_share(row: TensorStatistics) -> float:
    """The share of the values that are zero; 0 if there are no values."""
    return (row.zeros or 0) / row.numbers if row.count else 0.0


def outlier_row_gain(row: TensorStatistics) -> float | None:
    """The dB that int8 gains by one scale per row, if a few rows with large weights spoil a common one; else None."""
    one, each = (rounding_of(row, "int8", scope) for scope in ("tensor", "channel"))
    if one is None or each is None or one.sqnr_db is None or each.sqnr_db is None:
        return None
    gain = each.sqnr_db - one.sqnr_db
    return gain if one.sqnr_db < OUTLIER_DB <= each.sqnr_db and gain >= OUTLIER_GAIN_DB else None


def is_semi_structured(row: TensorStatistics) -> bool:
    """Whether a matrix loses nothing if only the two largest of every four weights along a row are kept.

    Not one that is mostly zero: a sparse format is smaller, and may be faster.
    """
    return 0.5 <= zero_share(row) < MOSTLY_ZERO and row.n_of_m.get("2:4", 0.0) >= MIN_ENERGY_KEPT


def dead_units(row: TensorStatistics) -> tuple[int, int]:
    """The number of all-zero rows and columns, without an embedding's padding row; 0 if a value is not finite.

    The norms skip NaN and infinities, so a row that consists of them has norm 0 too.
    """
    if row.nan or row.inf:
        return 0, 0
    dead_rows = row.rows.dead if row.rows is not None else 0
    is_table = len(row.shape) == 2 and row.shape[0] > row.shape[1]
    return 0 if is_table and dead_rows == 1 else dead_rows, row.columns.dead if row.columns is not None else 0


def dead_unit_bytes(row: TensorStatistics) -> int:
    """The bytes of a matrix's all-zero rows and columns."""
    dead_rows, dead_columns = dead_units(row)
    height = row_count(row)
    width = row.count // height
    return row.bytes - row.bytes * (height - dead_rows) * (width - dead_columns) // row.count


def row_count(row: TensorStatistics) -> int:
    """The number of rows of a matrix, or of all matrices of a stack."""
    return row.rows.count if row.rows is not None else row.shape[0]


def is_convolution(row: TensorStatistics) -> bool:
    """Whether it has the shape of a convolution's weight: more than two dimensions, and no stack of matrices."""
    return len(row.shape) > 2 and row_count(row) == row.shape[0]


def names(tensors: Sequence[TensorStatistics]) -> list[str]:
    """The first name of each tensor."""
    return [row.names[0] for row in tensors]


def total(tensors: Sequence[TensorStatistics], value: Callable[[TensorStatistics], int | None]) -> int:
    """The sum of `value` over the tensors; None counts as zero."""
    return sum(value(row) or 0 for row in tensors)


def stored_bytes(facts: ModelFacts) -> int:
    """The bytes of all stored tensors of the model, and of those that were not found or not read."""
    weights, fit = facts.document.weights, facts.document.weights_fit
    stored = total(facts.stored, lambda row: row.bytes)
    if weights is None or fit is None or facts.stored is weights.tensors:  # all of the files, whatever the model
        return stored
    lacking = {*fit.missing, *fit.unread}
    return stored + sum(tensor.bytes for tensor in facts.document.tensors if tensor.names[0] in lacking)


def saving(facts: ModelFacts, saved: float) -> Gain:
    """A gain of `saved` stored bytes, counted from the values."""
    return bytes_gain(saved, stored_bytes(facts), BY_BYTES)


def in_tensors(
    affected: Sequence[TensorStatistics], title: str, *, gain: Gain | None = None, severity: str = "", **values: float
) -> RuleMatch:
    """A match for `affected`, whose names are appended to the title; `values` is the evidence, counted from them."""
    evidence = {name: Figure(value, BY_BYTES) for name, value in values.items()}
    title = f"{title}: {joined_names(fold_names(names(affected)))}"
    return RuleMatch(title, evidence, tensors=names(affected), gain=gain, severity=severity)
