"""A server for reports on this machine: it renders a page when it is asked for, and says when a document changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from assay.api.options import RunOptions
from assay.api.report.formats import HTML, encoded
from assay.api.report.subject import reported, subject_of
from assay.errors import AssayError, UsageError

HOST = "127.0.0.1"
_STATE = "state"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What the list of documents may load: nothing."""
_STYLE = "body{font:14px system-ui;color-scheme:light dark;margin:32px;max-width:640px}li{margin:8px 0}"
_HEAD = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Assay reports</title><style>{_STYLE}</style>'


class ReportServer(ThreadingHTTPServer):
    """Serves the reports on `documents`: one at `/`, several at `/1/`, `/2/`, … with a list at `/`."""

    daemon_threads = True

    def __init__(self, documents: Sequence[str], port: int = 0) -> None:
        self.documents = [_Rendered(document) for document in documents]
        for document in self.documents:
            document.page()  # a document that cannot be read is an error now, not in the browser
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UsageError(f"cannot listen on {HOST}:{port}: {error.strerror}; choose another --port") from error

    @property
    def address(self) -> str:
        """The URL of the first page."""
        return f"http://{HOST}:{self.server_port}/"

    def route(self, path: str) -> tuple[_Rendered, str] | None:
        """The document that a path names, and the rest of the path; None for the list or an unknown path."""
        parts = path.strip("/").split("/")
        if len(self.documents) == 1:
            return self.documents[0], parts[0]
        number = int(parts[0]) if parts[0].isdecimal() and len(parts[0]) < 6 else 0
        known = 0 < number <= len(self.documents)
        return (self.documents[number - 1], parts[1] if len(parts) > 1 else "") if known else None


class _Rendered:
    """The page of one document, rendered again when its file changed."""

    def __init__(self, document: str) -> None:
        self.document = document
        self._lock = Lock()
        self._page = b""
        self._seen, self._shown = "", ""

    def state(self) -> str:
        """A text that changes when the page does."""
        self.page()
        return self._shown

    def page(self) -> bytes:
        """The page; while the document cannot be read, the last one that could."""
        with self._lock:
            now = _file_state(self.document)
            if now != self._seen:
                try:
                    subject = subject_of(reported(self.document, None, RunOptions(), 0.0))
                    self._page, self._shown = encoded(subject, HTML, live=f"{_STATE}?{now}"), now
                except AssayError:
                    if not self._page:
                        raise
                self._seen = now
            return self._page


def _file_state(path: str) -> str:
    """A text that changes when the file does."""
    try:
        found = os.stat(path)
    except OSError:
        return "gone"
    return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"


class _Handler(BaseHTTPRequestHandler):
    """Answers GET requests that were addressed to this machine by name."""

    server: ReportServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the list, a page, or the state of a document."""
        # Another site may point its own name at this address: only requests for this machine are answered.
        if self.headers.get("Host", "") not in (f"{name}:{self.server.server_port}" for name in (HOST, "localhost")):
            return self._send(HTTPStatus.FORBIDDEN, b"not this host", "text/plain")
        path = self.path.partition("?")[0]
        found = self.server.route(path)
        if found is not None and found[1] == _STATE:
            return self._send(HTTPStatus.OK, found[0].state().encode(), "text/plain")
        if found is not None and not found[1] and path.endswith("/"):
            return self._send(HTTPStatus.OK, found[0].page(), "text/html; charset=utf-8")
        if found is None and path == "/":
            return self._send(HTTPStatus.OK, self._list().encode(), "text/html; charset=utf-8", _POLICY)
        return self._send(HTTPStatus.NOT_FOUND, b"not found", "text/plain")

    def _list(self) -> str:
        items = "".join(
            f'<li><a href="/{number}/">{escape(one.document)}</a></li>'
            for number, one in enumerate(self.server.documents, 1)
        )
        return f"{_HEAD}<h1>Reports</h1><ul>{items}</ul>"

    def _send(self, status: HTTPStatus, body: bytes, kind: str, policy: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        if policy:
            self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: every view of a page would be a line."""
