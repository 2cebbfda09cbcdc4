"""Pages inside a notebook: a sandboxed frame that holds the whole page and makes no request."""

from __future__ import annotations

import base64
import gzip
import re
from hashlib import sha256
from html import escape

_STYLE = (
    "width:100%;height:{height}px;border:1px solid #8888;border-radius:6px;resize:vertical;color-scheme:light dark"
)
_UNPACK = """(async () => {
const bytes = Uint8Array.from(atob(document.getElementById("page").textContent), (char) => char.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
const text = await new Response(stream).text();
document.open(); document.write(text); document.close();
})()"""
"""Replaces the document by the page that it holds in compressed form."""


def still_frame(html: str, height: int, title: str) -> str:
    """A frame that shows `html`, of which no script runs."""
    return _frame(html, height, title, sandbox="")


def frame(html: str, height: int, title: str) -> str:
    """A frame that shows `html`, an interactive page; it holds the page in compressed form."""
    packed = base64.b64encode(gzip.compress(html.encode(), compresslevel=9, mtime=0)).decode()
    unpacking = (
        f"<!doctype html><meta charset='utf-8'>{_policy(html)}"
        f"<script type='application/octet-stream' id='page'>{packed}</script><script>{_UNPACK}</script>"
    )
    return _frame(unpacking, height, title, sandbox="allow-scripts allow-downloads")


def digest(text: str) -> str:
    """The source that allows the inline script or style `text` in a Content Security Policy."""
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _policy(html: str) -> str:
    """The policy of the page, which the frame keeps when the page replaces its document, and the script above."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    policy = found[1].replace("script-src", f"script-src {digest(_UNPACK)}") if found else "default-src 'none'"
    return f"<meta http-equiv='Content-Security-Policy' content=\"{policy}\">"


def _frame(html: str, height: int, title: str, *, sandbox: str) -> str:
    style = _STYLE.format(height=height)
    return (
        f'<iframe sandbox="{sandbox}" srcdoc="{_quoted(html)}" title="{_quoted(title)}" style="{style}">'
        f"{escape(title)}</iframe>"  # all that is left where frames are removed, as on GitHub
    )


def _quoted(text: str) -> str:
    """`text` inside an attribute between double quotes."""
    return text.replace("&", "&amp;").replace('"', "&quot;")
