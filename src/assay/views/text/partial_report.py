"""A report with the marks of a pass that did not cover the whole model."""

from __future__ import annotations

from dataclasses import replace

from assay.document.document import Document
from assay.views.partial import PARTIAL, marked_title
from assay.views.tables import Column, Table
from assay.views.text.report import Report, as_report


def marked(shown: Table | Report, document: Document) -> Report:
    """The report with its title marked if not the whole model ran, and its data if the pass stopped midway."""
    report = as_report(shown)
    first, *rest = report.parts
    has_title = isinstance(first, str)
    title = marked_title(first if isinstance(first, str) else "", document)
    parts = [title, *(rest if has_title else report.parts)] if title else report.parts
    return Report(parts, marked_rows(report.data) if document.stopped else report.data)


def marked_rows(table: Table) -> Table:
    """The table with a column that marks every row as part of a partial result."""
    return replace(table, columns=[*table.columns, Column(PARTIAL, lambda row: True)])
