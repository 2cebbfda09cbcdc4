"""The themes there are."""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES

from assay.errors import UsageError


def check_theme(name: str) -> None:
    """Refuse a name that no theme has; the empty one is nobody's choice."""
    if name and name not in BUILTIN_THEMES:
        raise UsageError(f"theme {name!r} was given: one of {', '.join(sorted(BUILTIN_THEMES))} is wanted")
