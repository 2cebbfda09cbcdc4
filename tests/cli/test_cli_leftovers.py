"""A failed run leaves nothing behind (directories, manifests, journals, temporary files) and keeps old results."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from assay import atomic
from assay.cli.main import run
from assay.errors import WriteError

MODEL = """
from torch import nn


def cannot_build():
    raise RuntimeError("cannot build")


class Interrupted(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 2))
"""
TRACE = """
import os, sys
if len(sys.argv) > 1:
    open(os.environ["ASSAY_TRACE_DIR"] + "/Net_forward_001.json", "w").write(sys.argv[1])
    open(os.environ["ASSAY_TRACE_MANIFEST"], "a").write("Net_forward_001.json\\n")
"""
FAILURES = {
    "a model that cannot be built": ["net.py::cannot_build"],
    "a model that is interrupted": ["net.py::Interrupted", "--inputs", "1x4"],
    "inputs that cannot be parsed": ["net.py::Net", "--inputs", "nonsense"],
    "inputs that do not match forward": ["net.py::Net", "--inputs", "a=1x4,b=1x4"],
    "a file that does not exist": ["gone.py::Net"],
    "a truncated checkpoint": ["cut.safetensors"],
}
OUTPUTS = {
    "extract": ["--dir", "new/out"],
    "analyze": ["--dir", "new/out"],
    **{
        name: ["-o", "out.txt", "--save", "out.assay.json"]
        for name in ("cost", "summary", "memory", "modules", "ops")
    },
    **{name: ["-o", "out.txt", "--save", "out.assay.json"] for name in ("check", "profile", "params")},
}


@pytest.fixture
def files(in_place) -> Path:
    (in_place / "net.py").write_text(MODEL)
    (in_place / "trace.py").write_text(TRACE)
    save_file({"a": torch.ones(3, 3), "b": torch.ones(2)}, "w.safetensors")
    (in_place / "cut.safetensors").write_bytes(Path("w.safetensors").read_bytes()[:20])
    return in_place


def tree(place: Path) -> dict[str, bytes]:
    """All files and directories below `place`, without Python's caches, with their contents."""
    found = (path for path in place.rglob("*") if "__pycache__" not in path.parts)
    return {str(path.relative_to(place)): b"" if path.is_dir() else path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("command", "failure"),
    # params reads a model without running it, so that wrong inputs and interrupted passes do not exist.
    [
        (command, failure)
        for command in OUTPUTS
        for failure in FAILURES
        if command != "params" or "--inputs" not in FAILURES[failure]
    ],
)
def test_a_failed_command_changes_no_file(files, command, failure):
    before = tree(files)
    assert run([command, *FAILURES[failure], *OUTPUTS[command], "-q"]) in (2, 3, 130)
    assert tree(files) == before


@pytest.mark.parametrize("command", ["extract", "analyze"])
def test_files_that_cannot_be_written_leave_no_directory(files, monkeypatch, command):
    def full(*_: object, **__: object) -> None:
        raise WriteError("no space left")

    before = tree(files)
    monkeypatch.setattr(atomic, "write_bytes", full)
    assert run([command, "net.py::Net", "--dir", "new/out", "-q"]) == 3
    assert tree(files) == before


@pytest.mark.parametrize("words", [["no-such-program"], ["trace.py"]])
def test_a_run_without_traces_leaves_nothing_and_keeps_those_of_the_previous_run(files, words):
    before = tree(files)
    run(["run", "-q", "--dir", "new/traces", "--", *words])
    assert tree(files) == before
    assert run(["run", "-q", "--dir", "new/traces", "--", "trace.py", "old"]) == 0
    before = tree(files)
    run(["run", "-q", "--dir", "new/traces", "--", *words])
    assert tree(files) == before
    assert run(["run", "-q", "--dir", "new/traces", "--", "trace.py", "newer"]) == 0
    assert tree(files) == {**before, "new/traces/Net_forward_001.json": b"newer"}


def test_a_journal_is_removed_if_the_run_fails(files, monkeypatch):
    before = tree(files)

    def failing(entry: object, row: object, read: object, seen: list[object] = []) -> object:  # noqa: B006
        seen.append(row)
        if len(seen) > 1:
            assert Path("out.txt.journal.jsonl").exists()
            raise MemoryError
        return row

    monkeypatch.setattr("assay.checkpoint.statistics.run._completed", failing)
    assert run(["params", "w.safetensors", "-o", "out.txt", "-q"]) == 70
    assert tree(files) == before


def test_temporary_files_of_killed_processes_are_removed(files):
    old, recent = files / ".assay-old.part", files / ".assay-recent.part"
    for path in (old, recent):
        path.write_bytes(b"")
    yesterday = time.time() - 2 * 24 * 60 * 60
    os.utime(old, (yesterday, yesterday))
    atomic.write_bytes(files / "result", b"")
    assert (old.exists(), recent.exists()) == (False, True)
