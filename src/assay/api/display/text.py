"""Previews as text: at most a few lines."""

from __future__ import annotations

from msgspec.structs import replace

from assay.api.display.preview import Preview
from assay.display import LINES, WIDTH
from assay.messages import plural
from assay.views.layout import Style
from assay.views.tables import Table
from assay.views.text.brief import brief_parts
from assay.views.text.report import Report, as_text


def preview_text(preview: Preview, kind: str) -> str:
    """The brief in at most `LINES` lines, of which the first starts with the class of the result."""
    first, *others = preview.brief.identity or ("nothing recorded",)
    brief = replace(preview.brief, identity=(f"{kind}: {first}", *others))
    lines = as_text(Report(brief_parts(brief), Table([], [])), Style(WIDTH)).rstrip().splitlines()
    while len(lines) > LINES and "" in lines:
        lines.remove("")
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"  … {plural(len(lines) - LINES + 1, 'more line')}"]
    return "\n".join(lines)
