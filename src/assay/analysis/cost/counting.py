"""The cost of a kind of op: find its formula, apply it, and give the reason if that fails."""

from __future__ import annotations

from assay.analysis.cost.bytes import Traffic, streamed
from assay.analysis.cost.categories import CUSTOM, OTHER
from assay.analysis.cost.nested import work_of
from assay.analysis.cost.registry import Formula, formula_of
from assay.analysis.cost.work import Uncountable, Work
from assay.document.cost import KindCost
from assay.document.rows import OpKind

TORCH_NAMESPACES = frozenset(
    {"aten", "prims", "prim", "quantized", "onednn", "mkldnn", "mkl", "sparse", "inductor", "higher_order"}
)
_MISFITS = (LookupError, TypeError, ValueError, ArithmeticError)
"""Errors that a formula raises for shapes it was not written for."""


def cost_of(kind: OpKind) -> KindCost:
    """The cost of one execution; MACs and FLOPs are None, with a reason, if no formula applies."""
    formula = formula_of(kind.target)
    if formula is None:
        return _without_formula(kind)
    traffic = _traffic(formula, kind)
    try:
        work = work_of(formula.work, kind)
    except Uncountable as missing:
        return _cost(None, traffic, formula.category, str(missing))
    except _MISFITS as misfit:
        return _cost(None, traffic, formula.category, f"the formula of {kind.target} does not apply: {misfit!r}")
    return _cost(work, traffic, formula.category)


def _without_formula(kind: OpKind) -> KindCost:
    namespace = kind.target.partition(".")[0]
    category = OTHER if namespace in TORCH_NAMESPACES else CUSTOM
    return _cost(None, streamed(kind), category, "no formula")


def _traffic(formula: Formula, kind: OpKind) -> Traffic:
    try:
        return formula.traffic(kind)
    except (Uncountable, *_MISFITS):
        return streamed(kind)


def _cost(work: Work | None, traffic: Traffic, category: str, unknown: str = "") -> KindCost:
    flops = work.flops if work else None
    return KindCost(
        macs=work.macs if work else None,
        matrix_flops=flops,
        pointwise_flops=work.pointwise if work else None,
        needed_flops=flops if work is None or work.needed is None else work.needed,
        read_parameters=traffic.read_parameters,
        read_activations=traffic.read_activations,
        written=traffic.written,
        category=category,
        unknown=unknown,
    )
