"""The brief as an object that prints itself in a terminal and displays itself in a notebook."""

from __future__ import annotations

import shutil
import sys

from assay.display import Displayed
from assay.findings.brief import Brief
from assay.views.layout import Style
from assay.views.tables import Table
from assay.views.text.brief import brief_parts
from assay.views.text.report import Report, as_markdown, as_text

_WIDTH = 100
"""The width of the text unless it is printed in a terminal."""


class BriefView(Displayed):
    """What a person should know first about a result: `print` it, or display it in a notebook.

    Attributes:
        data: The brief as plain data.
    """

    def __init__(self, data: Brief) -> None:
        self.data = data
        self._parts = brief_parts(data)
        self._report = Report(self._parts, Table([], []))

    def __str__(self) -> str:
        return as_text(self._report, Style(shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH))

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return as_markdown(self._report)
