"""Running the explorer in an interactive terminal."""

from __future__ import annotations

import sys

from assay.errors import UsageError
from assay.views.terminal import knows_escapes
from assay.views.tui.subject import ExploredModel


def check_terminal(theme: str = "") -> None:
    """Raise UsageError if there is no interactive terminal or the theme is unknown, before any long work."""
    streams = (sys.stdin, sys.stdout)
    dumb = "" if knows_escapes() else " (TERM is dumb)"
    if dumb or not all(stream is not None and stream.isatty() for stream in streams):
        raise UsageError(
            f"explore needs an interactive terminal{dumb}; "
            "use `assay summary` or print(assay.summary(model)) to print the module tree"
        )
    if theme:
        from assay.views.tui.app import check_theme

        check_theme(theme)


def run_explorer(subject: ExploredModel, *, theme: str = "") -> None:
    """Run the explorer until the user quits."""
    from assay.views.tui.app import Explorer, ExplorerOptions
    from assay.views.tui.settings import settings_path

    Explorer(subject, ExplorerOptions(theme=theme, settings=settings_path())).run()
