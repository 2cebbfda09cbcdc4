"""The parameter section of an analysis: statistics if the values were read, otherwise only counts and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay import units
from assay.analysis.parameters import elements, parameters, tensor_totals
from assay.document.document import Document
from assay.document.rows import Tensor
from assay.document.weights import TensorStatistics, WeightsReport
from assay.messages import plural
from assay.views.tables import Column, Table
from assay.views.text.amounts import amounts
from assay.views.text.facts import facts_table, notes_table
from assay.views.text.params import ParamsOptions, params_report
from assay.views.text.params_lines import shown_name
from assay.views.text.report import Parts, section
from assay.views.text.totals import parameters_line

_TENSORS: tuple[Column[Tensor], ...] = (
    Column("tensor", lambda tensor: " = ".join(tensor.names), shrinks=True, keeps=16),
    Column("role", lambda tensor: tensor.role),
    Column("dtype", lambda tensor: tensor.type.dtype),
    Column("shape", lambda tensor: units.shape(tensor.type.shape)),
    Column("count", lambda tensor: elements(tensor.type), "right", units.count),
    Column("bytes", lambda tensor: tensor.bytes, "right", units.size),
)
_FLOATS = ("float", "bfloat", "gguf:")
"""How the dtypes begin of which spectra are computed."""


def parameter_section(document: Document, top: int | None = None) -> Parts:
    """Parameter totals and the `top` largest tensors; if `top` is None, all tensors, duplicates and outliers."""
    if document.weights is None and not document.tensors:
        return []
    facts = _count_facts(document)
    if document.weights is None:
        return ["PARAMETERS", facts_table(facts), "Largest tensors", _largest(document, top)]
    report = params_report(document, ParamsOptions(full=top is None, top=top, sort=None if top is None else "count"))
    facts += _value_facts(document.weights)
    if top is None or not document.weights.tensors:
        return ["PARAMETERS", facts_table(facts), *report.parts]
    return [
        "PARAMETERS",
        facts_table(facts),
        *section("Largest tensors (repeated blocks on one line)", report.data),
        *section("Notes on the weights", notes_table(document.weights.notes)),
    ]


def _count_facts(document: Document) -> list[tuple[str, str]]:
    counted = parameters(document)
    if counted.count is None and not document.tensors:
        return []
    dtypes = ", ".join(f"{units.count(sums.elements)} {dtype}" for dtype, sums in counted.by_dtype.items())
    return [("parameters", parameters_line(counted, amounts(exact=False))), ("dtypes", dtypes or units.UNKNOWN)]


def _value_facts(weights: WeightsReport) -> list[tuple[str, str]]:
    """Totals over the stored values of all tensors, buffers included."""
    analysed = [one for one in weights.tensors if one.zeros is not None]
    count = sum(one.numbers for one in analysed)
    zeros, near = sum(one.zeros or 0 for one in analysed), sum(one.near_zeros or 0 for one in analysed)
    facts = [
        ("values stored", units.exact(sum(one.count for one in weights.tensors))),
        ("bytes stored", units.size(sum(one.bytes for one in weights.tensors))),
        ("sparsity", f"{units.share(zeros, count)} zeros, {units.share(near, count)} near zero"),
        *_spectral_facts(weights),
    ]
    oddities = {
        "duplicates": (len(weights.duplicates), "group of equal tensors", "groups of equal tensors"),
        "outliers": (len(weights.outliers), "value far from its family's", "values far from those of their family"),
        "not analysed": (len(weights.failures), "tensor or file", "tensors or files"),
    }
    return facts + [(name, plural(number, one, many)) for name, (number, one, many) in oddities.items() if number]


def _spectral_facts(weights: WeightsReport) -> list[tuple[str, str]]:
    """The largest spectral norm; a lower bound if it was not computed for all matrices of floats."""
    norms = [(tensor.spectral.norm, shown_name(tensor)) for tensor in weights.tensors if tensor.spectral is not None]
    if not norms:
        return []
    norm, name = max(norms)
    left_out = sum(map(_has_unknown_norm, weights.tensors))
    if not left_out:
        text = f"{units.ratio(norm)} in {name} (of {plural(len(norms), 'matrix', 'matrices')})"
    else:
        text = f"at least {units.ratio(norm)} ({name}; {len(norms)} of {len(norms) + left_out} matrices computed)"
    return [("largest spectral norm", text)]


def _has_unknown_norm(tensor: TensorStatistics) -> bool:
    is_matrix = len(tensor.shape) > 1 and tensor.count > 0 and tensor.dtype.startswith(_FLOATS)
    return is_matrix and tensor.spectral is None


def _largest(document: Document, top: int | None) -> Table:
    ordered = sorted(document.tensors, key=lambda tensor: -tensor.bytes)
    omitted = [] if top is None else ordered[top:]
    rest = [_sum(f"({len(omitted)} more)", omitted)] if omitted else []
    return Table(_TENSORS, ordered, [*rest, _sum("total", ordered)]).first(top)


def _sum(name: str, tensors: Sequence[Tensor]) -> dict[str, Any]:
    sums = tensor_totals(tensors)
    return {"tensor": name, "role": "", "dtype": "", "shape": "", "count": sums.elements, "bytes": sums.bytes}
