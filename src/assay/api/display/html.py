"""Previews as HTML: the compact form of the web page."""

from __future__ import annotations

from dataclasses import replace

from assay.api.display.preview import Preview
from assay.views.html.build import subtitle
from assay.views.html.compact import CompactPage, compact_frame
from assay.views.html.overview import page_brief


def preview_html(preview: Preview, kind: str) -> str:
    """The brief as cards and the tables below it, in a frame without scripts."""
    brief = page_brief(replace(preview.subject, brief=preview.brief))
    assert brief is not None
    return compact_frame(CompactPage(kind, brief, preview.parts(), subtitle(preview.subject.document)))
