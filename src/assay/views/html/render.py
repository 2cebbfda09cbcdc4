"""Writing a page: the built shell with its data, as compressed JSON that is never executed."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from assay.errors import ReadError

SHELL = "report.html"
_POLICY = "default-src 'none';"
_LIVE_POLICY = f"{_POLICY} connect-src 'self';"


def render(page: Any, sections: Mapping[str, Any], title: str, *, view: str = "", live: str = "") -> str:
    """The HTML of a page and of the sections that it decodes on demand.

    Args:
        page: The data of the page.
        sections: The data that views decode when they are first shown, by name.
        title: The title of the browser's window.
        view: The view to show first, by its id; the first one if it is empty.
        live: The address that the page asks whether its document changed; empty for a page that makes no request.
    """
    head = [f"<title>{escape(title)}</title>"]
    head += [f'<meta name="assay-view" content="{escape(view)}">'] if view else []
    head += [f'<meta name="assay-live" content="{escape(live)}">'] if live else []
    data = "\n".join(_element(name, value) for name, value in {"page": page, **sections}.items())
    before, after = shell().split("<title><!-- title --></title>", 1)
    if live:
        before = before.replace(_POLICY, _LIVE_POLICY, 1)
    return f"{before}{''.join(head)}{after.replace('<!-- data -->', data, 1)}"


def shell() -> str:
    """The page without data, as `web/` builds it."""
    try:
        return (files("assay.views.html") / "static" / SHELL).read_text(encoding="utf-8")
    except OSError as error:
        raise ReadError(f"the web page is missing from this installation of Assay: {error}") from error


def _element(name: str, value: Any) -> str:
    packed = gzip.compress(msgspec.json.encode(value), compresslevel=6, mtime=0)
    return f'<script type="application/octet-stream" id="data-{name}">{base64.b64encode(packed).decode()}</script>'
