"""Fused optimizer steps: so many operations a parameter."""

from __future__ import annotations

from assay.analysis.cost.categories import OPTIMIZER
from assay.analysis.cost.reading import items, total
from assay.analysis.cost.registry import WorkRule, register, register_table
from assay.analysis.cost.work import Work

PER_PARAMETER = {4: "_fused_sgd", 7: "_fused_adagrad", 13: "_fused_adam", 14: "_fused_adamw"}
"""The update rule written out, weight decay and bias correction included."""


def _step(operations: int) -> WorkRule:
    return lambda kind: Work(pointwise=operations * total(items(kind, "self")))


register_table(PER_PARAMETER, _step, category=OPTIMIZER)
register("inductor::accumulate_grad_", category=OPTIMIZER)(lambda kind: Work(pointwise=total([kind.inputs[-1].type])))
