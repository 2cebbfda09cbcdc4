"""Checkpoints behind a web server of this machine, and addresses whose packages are not installed."""

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
    """Serves a folder, and notes what was asked for and how much was sent."""

    ranges = True
    sized = True

    def __init__(self, folder):
        self.folder = folder
        self.sent = 0
        self.asked = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body):
        path = self.server.folder / self.path.lstrip("/")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        self.server.asked.append((self.command, self.path, bool(wanted)))
        if path.is_dir():
            data, kind = "".join(f'<a href="{item.name}">x</a>' for item in path.iterdir()).encode(), "text/html"
        elif path.is_file():
            data, kind = path.read_bytes(), "application/octet-stream"
        else:
            self.send_error(404)
            return
        whole, part = len(data), bool(wanted) and self.server.ranges
        if part:
            data = data[int(wanted[1]) : int(wanted[2]) + 1]
        self.send_response(206 if part else 200)
        if part:
            self.send_header("Content-Range", f"bytes {wanted[1]}-{wanted[2]}/{whole}")
        self.send_header("Content-Type", kind)
        if self.server.sized:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            with contextlib.suppress(ConnectionError):  # the reader may have seen enough
                self.server.sent += self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(tmp_path):
    """A server of `tmp_path`, and its address."""
    with Server(tmp_path) as found:
        found.url = f"http://127.0.0.1:{found.server_port}"
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


WRITERS = {
    "w.safetensors": save_file,
    "w.pt": torch.save,
    "old.pt": lambda value, path: torch.save(value, path, _use_new_zipfile_serialization=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_read_by_ranges(tmp_path, server, name):
    WRITERS[name](TENSORS, tmp_path / name)
    assert_same(open_checkpoint(f"{server.url}/{name}"), TENSORS)
    assert all(part for command, _, part in server.asked if command == "GET")


def test_statistics_over_the_web_are_those_of_the_file(tmp_path, server):
    save_file(TENSORS, tmp_path / "w.safetensors")
    assert run(["params", f"{server.url}/w.safetensors", "-q"]) == 0
    there, here = (
        analyze_weights(place).tensors for place in (f"{server.url}/w.safetensors", tmp_path / "w.safetensors")
    )
    assert there == here


def test_a_compressed_record_over_the_web(tmp_path, server):
    torch.save(TENSORS, tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as old,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for item in old.infolist():
            new.writestr(item.filename, old.read(item))
    assert_same(open_checkpoint(f"{server.url}/b.pt"), TENSORS)


def test_a_folder_and_an_index_over_the_web(tmp_path, server):
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


def test_a_large_file_is_not_fetched_to_be_listed(tmp_path, server):
    save_file({"w": torch.zeros(3_000_000)}, tmp_path / "w.safetensors")
    assert len(open_checkpoint(f"{server.url}/w.safetensors").entries) == 1
    assert server.sent < 100_000


def test_a_server_that_sends_no_parts_is_one_line(tmp_path, server, capsys):
    server.ranges = False
    save_file({"w": torch.zeros(3_000_000)}, tmp_path / "w.safetensors")
    assert run(["params", f"{server.url}/w.safetensors"]) == 3
    (said,) = capsys.readouterr().err.splitlines()
    assert "does not send parts of a file: download it first" in said
    assert server.sent < 12_000_000


@pytest.mark.parametrize(("path", "message"), [("none.pt", "cannot read"), ("", "without a model")])
def test_what_is_not_there_is_one_line(server, path, message, capsys):
    assert run(["params", f"{server.url}/{path}"]) == 3
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said


def test_a_server_that_tells_no_size_is_one_line(tmp_path, server):
    server.sized = False
    save_file(TENSORS, tmp_path / "w.safetensors")
    with pytest.raises(ReadError, match="does not say how large it is"):
        open_checkpoint(f"{server.url}/w.safetensors")


def test_nobody_at_the_other_end_is_one_line(capsys):
    assert run(["params", "http://127.0.0.1:1/w.pt"]) == 3
    (said,) = capsys.readouterr().err.splitlines()
    assert "cannot read http://127.0.0.1:1/w.pt" in said


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
    """In a process of its own: what has been imported once stays with fsspec."""
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
    (said,) = done.stderr.splitlines()
    assert re.search(f"is remote: pip install {package} to read", said)


def test_an_address_of_no_known_kind_is_one_line():
    with pytest.raises(ReadError, match=r"cannot read odd://x/w\.pt"):
        open_checkpoint("odd://x/w.pt")


def test_a_child_says_nothing_else(tmp_path, server):
    """Nothing is told about connections that were left open."""
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
