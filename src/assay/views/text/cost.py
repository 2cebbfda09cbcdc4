"""The report of what a model costs: totals, their distribution by type of operation, the heaviest kinds."""

from __future__ import annotations

from assay.document.cost import Cost
from assay.document.document import Document
from assay.views.text.amounts import amounts
from assay.views.text.cost_tables import CostOptions, cost_table
from assay.views.text.report import Report
from assay.views.text.totals import totals_tables

HEAVIEST = 10
"""Kinds of operation that the report lists."""


def cost_report(document: Document, cost: Cost, options: CostOptions) -> Report:
    """What a person wants to know first; its data are the types of operation."""
    kinds = CostOptions(options.exact, HEAVIEST if options.top is None else options.top, options.sort)
    types = cost_table(document, cost, "category", CostOptions(options.exact, sort=options.sort))
    return Report(
        [
            _title(document, cost),
            *totals_tables(document, cost, amounts(options.exact)),
            "By type of operation",
            types,
            "Heaviest kinds",
            cost_table(document, cost, "kind", kinds),
        ],
        types,
    )


def _title(document: Document, cost: Cost) -> str:
    passes = "one forward pass" if cost.backward is None else "one forward and one backward pass"
    return f"{document.model_class or 'model'}: {passes}"
