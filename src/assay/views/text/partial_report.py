"""A report with the marks of a pass that stopped midway."""

from __future__ import annotations

from dataclasses import replace

from assay.document.document import Document
from assay.views.partial import PARTIAL, marked_title
from assay.views.tables import Column, Table
from assay.views.text.report import Report, as_report


def marked(shown: Table | Report, document: Document) -> Report:
    """The report with its title and the rows of its data marked if the pass of `document` stopped midway."""
    report = as_report(shown)
    if document.complete:
        return report
    first, *rest = report.parts
    has_title = isinstance(first, str)
    title = marked_title(first if isinstance(first, str) else "", document)
    data = replace(report.data, columns=[*report.data.columns, Column(PARTIAL, lambda row: True)])
    return Report([title, *(rest if has_title else report.parts)], data)
