"""Finding rows by a pattern: each distinct name and class is looked at once, however many rows have it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.views.tui.index import Flags
from assay.views.tui.sheet import Sheet


@dataclass(frozen=True)
class Query:
    """A pattern that was typed."""

    text: str
    pattern: re.Pattern[str]
    literal: bool
    """Whether it is no regular expression and was taken as it stands."""
    in_path: bool
    """Whether it spans the dots of a path."""


def query(text: str) -> Query:
    """What was typed as a pattern; upper case matters only where there is some."""
    flags = 0 if any(char.isupper() for char in text) else re.IGNORECASE
    in_path = "." in text
    # Of a path, the match must reach into the last name: `layers.3` is that layer, not all that is inside it.
    shape = r"(?:{})[^.]*\Z" if in_path else "{}"
    try:
        return Query(text, re.compile(shape.format(text), flags), False, in_path)
    except re.error:
        return Query(text, re.compile(shape.format(re.escape(text)), flags), True, in_path)


def find(sheet: Sheet, wanted: Query) -> Flags:
    """Which rows match: by name or class, or by path where the pattern has a dot."""
    index = sheet.index

    def matching(texts: Sequence[str | None]) -> Flags:
        return np.fromiter((wanted.pattern.search(text or "") is not None for text in texts), np.bool_, len(texts))

    found: Flags = matching(index.names)[index.name_ids] | matching(sheet.kinds.distinct)[sheet.kinds.ids]
    if wanted.in_path:
        found |= matching(sheet.paths)[index.origin]
    # A run is found by its members, and stands above them.
    members: Flags = found & (index.run == 0)
    return members
