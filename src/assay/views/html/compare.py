"""What changed from another document, for the page."""

from __future__ import annotations

from assay.views.html.convert import blocks_of
from assay.views.html.page import PageView
from assay.views.html.subject import Subject
from assay.views.text.comparison import comparison_report


def compare_view(subject: Subject) -> list[PageView]:
    """The comparison, if there is one."""
    if subject.comparison is None:
        return []
    blocks = blocks_of(comparison_report(subject.comparison).parts[1:], "compare")
    return [PageView("compare", "Compare", blocks, badge="=" if subject.comparison.identical else "≠")]
