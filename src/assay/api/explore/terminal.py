"""The terminal that the explorer needs, and running it there."""

from __future__ import annotations

import sys

from assay.errors import UsageError
from assay.views.tui.subject import ExploredModel


def need_terminal(theme: str = "") -> None:
    """Refuse, before any long work, where there is no terminal to explore in or no such theme."""
    streams = (sys.stdin, sys.stdout)
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise UsageError("explore needs a terminal, and stdin or stdout is none (assay summary prints the tree)")
    if theme:
        from assay.views.tui.app import check_theme

        check_theme(theme)


def show(subject: ExploredModel, *, theme: str = "") -> None:
    """Run the explorer until somebody quits."""
    from assay.views.tui.app import Explorer, ExplorerOptions
    from assay.views.tui.settings import settings_path

    Explorer(subject, ExplorerOptions(theme=theme, settings=settings_path())).run()
