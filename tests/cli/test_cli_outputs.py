"""Output files: a source is never overwritten, and a directory is refused before any work."""

from __future__ import annotations

import json

import pytest
import torch

from assay.cli.main import run


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("import torch\ndef load():\n    return torch.nn.Linear(2, 2)\n")
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [event]}))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["params", "w.pt", "-o", "w.pt"], "w.pt"),
        (["trace", "t.json", "-o", "t.json"], "t.json"),
        (["trace", "t.json", "--export-perfetto", "t.json"], "t.json"),
        (["cost", "net.py::load", "--inputs", "1x2", "-o", "net.py"], "net.py"),
        (["check", "net.py::load", "--inputs", "1x2", "-o", "net.py"], "net.py"),
    ],
)
def test_a_source_is_never_overwritten(files, arguments, name, capsys):
    before = (files / name).read_bytes()
    assert run([*arguments, "--force"]) == 2
    assert (files / name).read_bytes() == before
    assert capsys.readouterr().err.count("\n") == 1


def test_a_directory_is_refused_before_any_work(files, capsys):
    (files / "folder").mkdir()
    assert run(["params", "w.pt", "-o", "folder", "--force"]) == 2
    assert "is a directory" in capsys.readouterr().err


def test_a_missing_trace_among_several_gives_an_incomplete_result(files, capsys):
    assert run(["trace", "t.json", "nope.json"]) == 4
    captured = capsys.readouterr()
    assert "nope.json" in captured.err
    assert captured.out
    assert run(["trace", "nope.json"]) == 3


def test_a_grouping_without_rows_says_so(files, capsys):
    assert run(["trace", "t.json", "--by", "kernel"]) == 0
    assert "none in this trace" in capsys.readouterr().out
