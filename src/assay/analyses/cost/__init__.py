"""What operations cost: MACs, FLOPs and logical bytes, from shapes and attributes alone.

Belongs here: the formulas, one family a file, and the rules for bytes. Does not: running anything,
adding up a document, or writing numbers. The conventions are in docs/conventions.md.
"""

from __future__ import annotations

import assay.analyses.cost.formulas  # noqa: F401  (fills the registry)
from assay.analyses.cost.categories import CATEGORIES
from assay.analyses.cost.counting import cost_of
from assay.analyses.cost.own_ops import register_cost
from assay.analyses.cost.registry import Formula, formulas, register
from assay.analyses.cost.work import Work
from assay.document.cost import KindCost

__all__ = ["CATEGORIES", "Formula", "KindCost", "Work", "cost_of", "formulas", "register", "register_cost"]
