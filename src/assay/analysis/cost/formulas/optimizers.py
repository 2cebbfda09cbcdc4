"""Fused optimizer steps: so many operations a parameter."""

from __future__ import annotations

from assay.analysis.cost.categories import OPTIMIZER
from assay.analysis.cost.reading import items, total
from assay.analysis.cost.registry import WorkRule, register
from assay.analysis.cost.work import Work

PER_PARAMETER = {"_fused_sgd": 4, "_fused_adagrad": 7, "_fused_adam": 13, "_fused_adamw": 14}
"""The update rule written out, weight decay and bias correction included."""


def _step(operations: int) -> WorkRule:
    return lambda kind: Work(pointwise=operations * total(items(kind, "self")))


for _name, _operations in PER_PARAMETER.items():
    register(f"aten::{_name}", category=OPTIMIZER)(_step(_operations))
register("inductor::accumulate_grad_", category=OPTIMIZER)(lambda kind: Work(pointwise=total([kind.inputs[-1].type])))
