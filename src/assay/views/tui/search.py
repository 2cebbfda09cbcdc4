"""Searching rows by a pattern; each distinct name and class is matched only once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.views.tui.index import Flags
from assay.views.tui.sheet import Sheet


@dataclass(frozen=True)
class Query:
    """A search text and its compiled pattern."""

    text: str
    pattern: re.Pattern[str]
    literal: bool
    """Whether `text` is not a valid regular expression and is matched literally."""
    in_path: bool
    """Whether it contains a dot and is matched against full paths."""


def query(text: str) -> Query:
    """The query for `text`; it is case-sensitive only if `text` contains capital letters."""
    flags = 0 if any(char.isupper() for char in text) else re.IGNORECASE
    in_path = "." in text
    # In a path the match must reach the last name: `layers.3` matches that layer, but not its submodules.
    template = r"(?:{})[^.]*\Z" if in_path else "{}"
    try:
        return Query(text, re.compile(template.format(text), flags), False, in_path)
    except re.error:
        return Query(text, re.compile(template.format(re.escape(text)), flags), True, in_path)


def find(sheet: Sheet, query: Query) -> Flags:
    """Which rows match by name or class, or by path if the pattern contains a dot."""
    index = sheet.index

    def matching(texts: Sequence[str | None]) -> Flags:
        return np.fromiter((query.pattern.search(text or "") is not None for text in texts), np.bool_, len(texts))

    matches: Flags = matching(index.names)[index.name_ids] | matching(sheet.kinds.distinct)[sheet.kinds.ids]
    if query.in_path:
        matches |= matching(sheet.paths)[index.origin]
    # A run does not match itself: it is shown as the parent of its matching members.
    members: Flags = matches & (index.run == 0)
    return members
