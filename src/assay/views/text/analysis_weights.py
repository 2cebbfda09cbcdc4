"""The section about parameters: their statistics where they were read, else what their shapes tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay import units
from assay.analysis.parameters import elements, held, parameters
from assay.document.document import Document
from assay.document.rows import Tensor
from assay.document.weights import WeightsReport
from assay.views.tables import Column, Table
from assay.views.text.amounts import amounts
from assay.views.text.facts import facts_table
from assay.views.text.params import ParamsOptions, params_report
from assay.views.text.report import Parts
from assay.views.text.totals import parameters_line

_TENSORS: tuple[Column[Tensor], ...] = (
    Column("tensor", lambda tensor: " = ".join(tensor.names), shrinks=True, keeps=16),
    Column("role", lambda tensor: tensor.role),
    Column("dtype", lambda tensor: tensor.type.dtype),
    Column("shape", lambda tensor: units.shape(tensor.type.shape)),
    Column("count", lambda tensor: elements(tensor.type), "right", units.count),
    Column("bytes", lambda tensor: tensor.bytes, "right", units.size),
)


def parameter_section(document: Document, top: int | None = None) -> Parts:
    """The parameters in facts, and the largest of them; all, with every list of curiosities, where `top` is None."""
    if document.weights is None and not document.tensors:
        return []
    facts = _counted(document)
    if document.weights is None:
        return ["PARAMETERS", facts_table(facts), "Largest tensors", _largest(document, top)]
    facts += _weighed(document.weights)
    report = params_report(document, ParamsOptions(full=top is None, top=top, sort=None if top is None else "count"))
    rest = report.parts[1:2] if top is not None else report.parts[1:]
    title = "Largest tensors, those of repeated blocks on one line" if top is not None else "Tensors"
    return [f"PARAMETERS: {report.parts[0]}", facts_table(facts), title, *rest]


def _counted(document: Document) -> list[tuple[str, str]]:
    if not document.tensors:
        return []
    found = parameters(document)
    dtypes = ", ".join(f"{units.count(own.elements)} {dtype}" for dtype, own in found.by_dtype.items())
    return [("parameters", parameters_line(found, amounts(exact=False))), ("types", dtypes or units.UNKNOWN)]


def _weighed(weights: WeightsReport) -> list[tuple[str, str]]:
    """What the statistics say of all tensors together, buffers with them."""
    known = [one for one in weights.tensors if one.zeros is not None]
    count = sum(one.count for one in known)
    zeros, near = sum(one.zeros or 0 for one in known), sum(one.near_zeros or 0 for one in known)
    facts = [
        ("numbers stored", units.exact(sum(one.count for one in weights.tensors))),
        ("bytes stored", units.size(sum(one.bytes for one in weights.tensors))),
        ("sparsity", f"{units.share(zeros, count)} zeros, {units.share(near, count)} near zero"),
    ]
    lost = len(weights.tensors) - len(known) + len(weights.files_lost)
    odd = (
        ("equal tensors", len(weights.duplicates), "groups with the same bytes"),
        ("outliers", len(weights.outliers), "figures far from those of their kind"),
        ("not analysed", lost, "tensors or files without figures"),
    )
    return facts + [(name, f"{units.exact(number)} {said}") for name, number, said in odd if number]


def _largest(document: Document, top: int | None) -> Table:
    ordered = sorted(document.tensors, key=lambda tensor: -tensor.bytes)
    left = [] if top is None else ordered[top:]
    rest = [_sum(f"({len(left)} others)", left)] if left else []
    return Table(_TENSORS, ordered, [*rest, _sum("total", ordered)]).first(top)


def _sum(name: str, tensors: Sequence[Tensor]) -> dict[str, Any]:
    sums = held(tensors)
    return {"tensor": name, "role": "", "dtype": "", "shape": "", "count": sums.elements, "bytes": sums.bytes}
