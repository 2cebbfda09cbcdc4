"""Showing a model in a notebook: the module view of its web page in a frame."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from assay.api.options import RunOptions
from assay.views.html.frame import frame
from assay.views.tables import printable
from assay.views.tui.subject import ExploredModel

_VIEW = "modules"
_HEIGHT = 720


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows HTML and has no terminal."""
    return hasattr(_shell(), "kernel")


def show_in_notebook(subject: ExploredModel) -> None:
    """Show the page of the model below the cell, after notes on what it does not contain."""
    from assay.api.report import page_html

    document = subject.document
    name = document.model_class or document.origin.name
    notes = "".join(f"<p>{escape(printable(note))}</p>" for note in subject.notes)
    page = frame(page_html(document, None, RunOptions(), _VIEW), _HEIGHT, f"{name}: modules")
    data = {"text/plain": f"<the modules of {printable(name)}>", "text/html": notes + page}
    sys.modules["IPython"].display.publish_display_data(data)


def _shell() -> Any:
    """The running IPython shell; None if there is none."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
