"""Fused optimizer steps: a fixed number of ops per parameter element."""

from __future__ import annotations

from assay.analysis.cost.categories import OPTIMIZER
from assay.analysis.cost.reading import items, total
from assay.analysis.cost.registry import WorkRule, register, register_table
from assay.analysis.cost.work import Work

PER_PARAMETER = {4: "_fused_sgd", 7: "_fused_adagrad", 13: "_fused_adam", 14: "_fused_adamw"}
"""Ops of the update rule, including weight decay and bias correction."""


def _step(ops: int) -> WorkRule:
    return lambda kind: Work(pointwise=ops * total(items(kind, "self")))


register_table(PER_PARAMETER, _step, category=OPTIMIZER)
register("inductor::accumulate_grad_", category=OPTIMIZER)(lambda kind: Work(pointwise=total([kind.inputs[-1].type])))
