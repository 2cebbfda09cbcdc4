"""The cost of ops: MACs, FLOPs and logical bytes, computed from shapes and attributes only.

Belongs here: the formulas, one family per file, the rules for bytes, and totals over a document. Does not: running
anything or formatting numbers. The conventions are in docs/conventions.md.
"""

from __future__ import annotations

import assay.analysis.cost.formulas  # noqa: F401  (fills the registry)
from assay.analysis.cost.categories import CATEGORIES
from assay.analysis.cost.counting import cost_of
from assay.analysis.cost.own_ops import register_cost
from assay.analysis.cost.registry import formulas, register
from assay.document.cost import KindCost

__all__ = ["CATEGORIES", "KindCost", "cost_of", "formulas", "register", "register_cost"]
