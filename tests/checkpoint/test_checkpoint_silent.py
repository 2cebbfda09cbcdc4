"""Web servers that accept a connection and then send nothing, or stop in the middle."""

from __future__ import annotations

import socket
import threading

import pytest
import torch
from safetensors.torch import save

from assay.checkpoint import remote
from assay.checkpoint.open import open_checkpoint
from assay.cli.main import run
from assay.errors import ReadError

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

FILE = save({"w": torch.arange(50_000.0), "v": torch.arange(50_000.0)})


class Silent:
    """A server that answers the first `answers` requests, sends half of the next answer, and then nothing."""

    def __init__(self, answers):
        self.answers = answers
        self.requests = []
        self.lock = threading.Lock()
        self.connections = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/w.safetensors"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection):
        with connection.makefile("rb") as lines:
            while True:
                head = []
                while (line := lines.readline()).strip():
                    head.append(line.decode())
                if not head:
                    return
                with self.lock:
                    self.requests.append(head[0].split()[0])
                    number = len(self.requests)
                if number > self.answers + 1 or (number > self.answers and not self.answers):
                    threading.Event().wait()
                span = next((line.split("=")[1] for line in head if line.lower().startswith("range")), "")
                first, last = map(int, span.split("-")) if span else (0, len(FILE) - 1)
                body = FILE[first : last + 1]
                connection.sendall(
                    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n"
                    % (first, last, len(FILE), len(body))
                )
                if head[0].startswith("GET"):
                    connection.sendall(body if number <= self.answers else body[: len(body) // 2])


@pytest.fixture
def server(request, monkeypatch):
    monkeypatch.setattr(remote, "TIME_LIMIT_S", 0.3)
    running = Silent(request.param)
    yield running
    running.socket.close()
    for connection in running.connections:
        connection.close()


@pytest.mark.parametrize("server", [0], indirect=True)
def test_a_server_that_never_answers_is_given_up_in_one_line(server, capsys):
    assert run(["params", server.url]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert f"cannot read {server.url}: the server sent nothing for 0.3 s" in line
    assert server.requests == ["HEAD"]


@pytest.mark.parametrize("server", [1, 2], indirect=True)
def test_a_server_that_stops_in_the_middle_is_given_up(server):
    with pytest.raises(ReadError, match="sent nothing for"):
        open_checkpoint(server.url)


@pytest.mark.parametrize("server", [3], indirect=True)
def test_a_file_is_asked_only_once_more_after_a_silence(server):
    file = remote.RemoteFile(server.url)
    assert file.read(0, 8) == FILE[:8]
    assert file.read(8, 100) == FILE[8:108]
    for _ in range(3):
        with pytest.raises(ReadError, match="sent nothing for"):
            file.read(0, 50_000)
    assert server.requests == ["HEAD", "GET", "GET", "GET"]
