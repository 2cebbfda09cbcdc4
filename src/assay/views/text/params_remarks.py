"""The remarks on a row of the tensor table: what all its tensors have, and which of them differ and why."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.document.weights import Outlier, TensorStatistics
from assay.messages import plural
from assay.views.text.params_lines import TensorRow

_NAMED = 2
"""Tensors of a row that are named because they differ; the others are counted."""
_NOT_FINITE = ("NaN", "infinite")
_UNCHANGED = {kind: kind for kind in _NOT_FINITE}
"""Plurals that are not regular."""


def remarks(row: TensorRow) -> str:
    """NaN, infinities, problems, dead rows and columns, notes, and statistics that only some of the tensors have."""
    found = [dict(_found(tensor)) for tensor in row.tensors]
    common = [kind for kind in found[0] if all(kind in each for each in found)]
    everywhere = [_text(kind, sum(each[kind] for each in found)) for kind in common]
    differing: list[tuple[bool, float, str]] = []
    for each, label, outlier in zip(found, row.labels, row.outliers, strict=True):
        own = {kind: count for kind, count in each.items() if kind not in common}
        invalid = [_text(kind, own[kind]) for kind in _NOT_FINITE if kind in own]
        reasons = [_text(kind, count) for kind, count in own.items()]
        reasons += [_outlier_text(outlier)] if outlier is not None and not reasons else []
        reason = ", ".join(invalid or reasons[:1])
        far = -outlier.deviations if outlier is not None else 0.0
        differing += [(not invalid, far, f"{label} differs: {reason}")] if reason else []
    differing.sort(key=lambda one: one[:2])  # NaN and infinities first, then what is furthest from the others
    rest = [fine for fine, *_ in differing[_NAMED:]]
    more = [f"{rest.count(False)} more with NaN or infinite values"] if False in rest else []
    more += [f"{rest.count(True)} more"] if True in rest else []
    named = [text for *_, text in differing[:_NAMED]]
    return "; ".join([*everywhere, *named, *([f"and {' and '.join(more)}"] if more else [])])


def _found(tensor: TensorStatistics) -> Iterator[tuple[str, int]]:
    """What is remarkable about a tensor, the worst first, with counts; 0 for what is not counted.

    Dead rows and columns are counted only if all values are finite: norms skip other values.
    """
    finite = not tensor.nan and not tensor.inf
    counts = {
        "NaN": tensor.nan,
        "infinite": tensor.inf,
        "dead row": tensor.rows.dead if tensor.rows and finite else 0,
        "dead column": tensor.columns.dead if tensor.columns and finite else 0,
    }
    yield from ((kind, count) for kind, count in counts.items() if count)
    yield from ((text, 0) for text in (tensor.problem, tensor.note) if text)


def _text(kind: str, count: int) -> str:
    return plural(count, kind, _UNCHANGED.get(kind)) if count else kind


def _outlier_text(outlier: Outlier) -> str:
    return f"{outlier.figure} {units.ratio(outlier.value / outlier.typical)}× the median"
