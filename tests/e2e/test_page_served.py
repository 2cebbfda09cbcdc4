"""`assay serve`: a page that follows its document, for this machine alone."""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from threading import Thread

import pytest

import assay
from assay.api.report.server import ReportServer
from e2e import subjects


@pytest.fixture
def document(tmp_path):
    """A document in a file."""
    path = tmp_path / "net.assay.json"
    assay.save(subjects.rich(), path)
    return path


@pytest.fixture
def server(document):
    """A server of that document."""
    running = ReportServer([str(document)])
    thread = Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def status(server, host, path="/"):
    """The status of the answer to a request for this host."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def rewrite(path: Path, name: str) -> None:
    """Change the name of a module in a document, in one step."""
    changed = path.with_suffix(".new.json")
    assay.save(subjects.renamed(subjects.rich(), {"stem": name}), changed)
    os.replace(changed, path)


def test_the_page_follows_its_document(visit, server, document):
    page = visit(server.address, "view=modules")
    page.get_by_role("gridcell", name="stem").wait_for()
    rewrite(document, "trunk")
    page.get_by_role("gridcell", name="trunk").wait_for()
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('view')") == "modules"


def test_a_served_page_asks_only_its_server(visit, server):
    requests = []
    page = visit(server.address)
    page.context.on("request", lambda request: requests.append(request.url))
    with page.expect_request("**/state?*"):
        page.reload()
    assert all(url.startswith((server.address, "data:", "blob:")) for url in requests)
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; connect-src 'self'; ")


def test_a_document_that_cannot_be_read_leaves_the_page_as_it_is(visit, server, document):
    document.write_bytes(b"{")
    page = visit(server.address, "view=modules")
    page.get_by_role("gridcell", name="stem").wait_for()


def test_only_this_machine_is_answered(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    port = server.server_port
    assert [status(server, f"{name}:{port}") for name in ("127.0.0.1", "localhost")] == [200, 200]
    others = ("example.org", f"example.org:{port}", "127.0.0.1.example.org", f"localhost.example.org:{port}", None)
    assert [status(server, host) for host in others] == [403] * len(others)
    assert [status(server, f"localhost:{port}", path) for path in ("/../etc/passwd", "/x", "/2/")] == [404] * 3
