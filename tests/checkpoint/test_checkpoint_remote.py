"""Checkpoints on a local web server, and URL schemes whose packages are not installed."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import zipfile

import pytest
import torch
from checkpoint_files import SOURCE, assert_same
from clocks import HANG_S
from safetensors.torch import save_file

from assay.api.weights import analyze_weights
from assay.checkpoint.open import open_checkpoint
from assay.cli.main import run
from assay.errors import ReadError

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

TENSORS = {f"layers.{i}.w": torch.arange(float(50 * (i + 1))).reshape(-1, 5) for i in range(8)}


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder, and records the requests and the number of bytes sent."""

    ranges = True
    sized = True

    def __init__(self, folder):
        self.folder = folder
        self.sent = 0
        self.requests = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body):
        path = self.server.folder / self.path.lstrip("/")
        requested = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        self.server.requests.append((self.command, self.path, bool(requested)))
        if path.is_dir():
            data, kind = "".join(f'<a href="{item.name}">x</a>' for item in path.iterdir()).encode(), "text/html"
        elif path.is_file():
            data, kind = path.read_bytes(), "application/octet-stream"
        else:
            self.send_error(404)
            return
        whole, part = len(data), bool(requested) and self.server.ranges
        if part:
            data = data[int(requested[1]) : int(requested[2]) + 1]
        self.send_response(206 if part else 200)
        if part:
            self.send_header("Content-Range", f"bytes {requested[1]}-{requested[2]}/{whole}")
        self.send_header("Content-Type", kind)
        if self.server.sized:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            with contextlib.suppress(ConnectionError):  # the client may disconnect early
                self.server.sent += self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(tmp_path):
    """A server of the files in `tmp_path`; `url` is its address."""
    with Server(tmp_path) as running:
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


WRITERS = {
    "w.safetensors": save_file,
    "w.pt": torch.save,
    "old.pt": lambda value, path: torch.save(value, path, _use_new_zipfile_serialization=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_read_in_ranges(tmp_path, server, name):
    WRITERS[name](TENSORS, tmp_path / name)
    assert_same(open_checkpoint(f"{server.url}/{name}"), TENSORS)
    assert all(part for command, _, part in server.requests if command == "GET")


def test_statistics_over_http_equal_those_of_the_local_file(tmp_path, server):
    save_file(TENSORS, tmp_path / "w.safetensors")
    assert run(["params", f"{server.url}/w.safetensors", "-q"]) == 0
    remote, local = (
        analyze_weights(path).tensors for path in (f"{server.url}/w.safetensors", tmp_path / "w.safetensors")
    )
    assert remote == local


def test_compressed_tensors_over_http(tmp_path, server):
    torch.save(TENSORS, tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as old,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for item in old.infolist():
            new.writestr(item.filename, old.read(item))
    assert_same(open_checkpoint(f"{server.url}/b.pt"), TENSORS)


def test_a_folder_and_an_index_over_http(tmp_path, server):
    names = list(TENSORS)
    places = {}
    for number in range(2):
        file = f"part-{number}.safetensors"
        save_file({name: TENSORS[name] for name in names[number::2]}, tmp_path / file)
        places.update(dict.fromkeys(names[number::2], file))
    assert_same(open_checkpoint(f"{server.url}/"), TENSORS)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert_same(open_checkpoint(f"{server.url}/model.safetensors.index.json"), TENSORS)
    (tmp_path / "part-1.safetensors").unlink()
    checkpoint = open_checkpoint(f"{server.url}/model.safetensors.index.json")
    assert len(checkpoint.entries) == 4
    assert "part-1.safetensors" in checkpoint.failures[0]


def test_listing_a_large_file_does_not_download_it(tmp_path, server):
    save_file({"w": torch.zeros(3_000_000)}, tmp_path / "w.safetensors")
    assert len(open_checkpoint(f"{server.url}/w.safetensors").entries) == 1
    assert server.sent < 100_000


def test_the_error_for_a_server_without_range_requests_is_one_line(tmp_path, server, capsys):
    server.ranges = False
    save_file({"w": torch.zeros(3_000_000)}, tmp_path / "w.safetensors")
    assert run(["params", f"{server.url}/w.safetensors"]) == 3
    (error_line,) = capsys.readouterr().err.splitlines()
    assert "does not support range requests; download it first" in error_line
    assert server.sent < 12_000_000


@pytest.mark.parametrize(("path", "message"), [("none.pt", "cannot read"), ("", "without a model")])
def test_the_error_for_a_missing_url_is_one_line(server, path, message, capsys):
    assert run(["params", f"{server.url}/{path}"]) == 3
    (error_line,) = capsys.readouterr().err.splitlines()
    assert message in error_line


def test_the_error_for_a_server_without_sizes_is_one_line(tmp_path, server):
    server.sized = False
    save_file(TENSORS, tmp_path / "w.safetensors")
    with pytest.raises(ReadError, match="does not report its size"):
        open_checkpoint(f"{server.url}/w.safetensors")


def test_the_error_for_an_unreachable_server_is_one_line(capsys):
    assert run(["params", "http://127.0.0.1:1/w.pt"]) == 3
    (error_line,) = capsys.readouterr().err.splitlines()
    assert "cannot read http://127.0.0.1:1/w.pt" in error_line


@pytest.mark.parametrize(
    ("url", "module", "package"),
    [
        ("s3://bucket/w.pt", "s3fs", "s3fs"),
        ("gs://bucket/w.pt", "gcsfs", "gcsfs"),
        ("hf://owner/model/w.safetensors", "huggingface_hub", "huggingface_hub"),
        ("http://127.0.0.1:1/w.pt", "aiohttp", r"torch-assay\[remote\]"),
    ],
)
def test_a_missing_package_is_named(url, module, package):
    """In a separate process, because fsspec caches what it has imported."""
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from assay.cli.main import run\n"
        f"sys.exit(run(['params', {url!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    (error_line,) = done.stderr.splitlines()
    assert re.search(f"is remote: run pip install {package} to read", error_line)


def test_the_error_for_an_unknown_scheme_is_one_line():
    with pytest.raises(ReadError, match=r"cannot read odd://x/w\.pt"):
        open_checkpoint("odd://x/w.pt")


def test_stderr_stays_empty(tmp_path, server):
    """There are no warnings about open connections."""
    save_file(TENSORS, tmp_path / "w.safetensors")
    command = [
        sys.executable,
        "-c",
        "from assay.cli.main import main; main()",
        "params",
        f"{server.url}/w.safetensors",
    ]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert (done.returncode, done.stderr) == (0, "")
