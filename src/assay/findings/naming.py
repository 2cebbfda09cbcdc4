"""Short text for many module paths or tensor names: `layers.0–31.attn` for thirty-two of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.analysis import name_ranges
from assay.document import tree
from assay.document.document import Document

NAMED = 3
"""Names listed on one line."""


def module_names(document: Document, modules: Iterable[int], limit: int = NAMED) -> str:
    """The paths of the modules on one line, with consecutive numbers folded."""
    return joined_names(fold_names([tree.path_text(document.modules[index].path) for index in modules]), limit)


def joined_names(names: Sequence[str], limit: int = NAMED) -> str:
    """The first `limit` names and the number of the rest: `a, b, c and 4 more`."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def fold_names(names: Iterable[str]) -> list[str]:
    """Merge names that differ only in their numbers: `fold_names(["a.0.b", "a.1.b"]) == ["a.0–1.b"]`."""
    folded = name_ranges.fold_names(dict.fromkeys(names))
    return [one.counted if name_ranges.CUT in one.text else one.text for one in folded]
