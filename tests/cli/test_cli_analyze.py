"""`assay analyze`: what is printed, what is written, and every way it can end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from assay.cli import analyze as command
from assay.cli.main import run
from assay.document import files
from assay.errors import WriteError

MODEL = """
import os
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 4)
        self.second = nn.Linear(4, 2)
        self.passes = 0

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Stops(Net):
    def forward(self, x):
        self.first(x)
        raise RuntimeError("no further")


class Interrupted(Net):
    def forward(self, x):
        if not x.is_meta and os.environ.get("STARTED"):
            raise KeyboardInterrupt
        os.environ["STARTED"] = "1"
        return super().forward(x)


class Loud(Net):
    def forward(self, x):
        print("a model that prints")
        return super().forward(x)


def get_inputs():
    return torch.ones(3, 8)
"""
PARAMETERS = 8 * 4 + 4 + 4 * 2 + 2
FLOPS = 2 * 3 * (8 * 4 + 4 * 2)


@pytest.fixture
def analyzed(tmp_path, monkeypatch, capsys):
    """Runs the command in an empty directory with the model above."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("STARTED", raising=False)
    Path("net.py").write_text(MODEL)

    def call(*arguments: str) -> SimpleNamespace:
        code = run(["analyze", *arguments])
        told = capsys.readouterr()
        return SimpleNamespace(code=code, out=told.out, err=told.err)

    return call


def written() -> list[str]:
    return sorted(path.name for path in Path("assay_analysis").iterdir())


def test_a_report_and_two_files(analyzed):
    found = analyzed("net.py::Net", "--inputs", "net.py::get_inputs")
    assert found.code == 0
    assert written() == [command.DOCUMENT, command.TEXT]
    document = files.load(Path("assay_analysis") / command.DOCUMENT)
    assert document.cost.forward.matrix_flops == FLOPS
    assert sum(row.count for row in document.weights.tensors) == PARAMETERS
    text = (Path("assay_analysis") / command.TEXT).read_text()
    assert text.startswith("EXECUTIVE SUMMARY")
    for section in ("ARCHITECTURE", "PARAMETERS", "COMPUTATION", "MEMORY", "FINDINGS AND RECOMMENDATIONS"):
        assert re.search(f"^{section}", found.out, re.MULTILINE)
        assert re.search(f"^{section}", text, re.MULTILINE)
    assert "assay explore assay_analysis" in found.err
    assert all(row.startswith("assay: ") for row in found.err.splitlines())


def test_with_inference_there_is_time(analyzed):
    found = analyzed("net.py::Net", "--inference", "--passes", "2", "--warmup", "0")
    assert found.code == 0
    assert "PERFORMANCE: Net on cpu, 1 thread: 2 timed passes" in found.out
    document = files.load(Path("assay_analysis") / command.DOCUMENT)
    assert document.profile.passes == 2
    assert document.profile.threads == 1
    assert document.profile.energy is None
    assert "inputs inferred: 1x8:float32" in found.err


def test_quiet_tells_nothing_and_a_model_that_prints_stays_off_stdout(analyzed):
    found = analyzed("net.py::Loud", "-q")
    assert found.code == 0
    assert "a model that prints" not in found.out
    assert "assay:" not in found.err


def test_verbose_tells_what_could_not_be_applied(analyzed):
    assert "could not be applied: " in analyzed("net.py::Net", "-v").err
    assert "could not be applied: " not in analyzed("net.py::Net").err


def test_a_pass_that_stops_is_a_partial_result(analyzed):
    found = analyzed("net.py::Stops", "--inference")
    assert found.code == 4
    assert "no further" in found.err
    assert written() == [command.DOCUMENT, command.TEXT]
    assert "NOT KNOWN" in found.out


def test_a_memory_limit_is_a_partial_result(analyzed):
    found = analyzed("net.py::Net", "--inputs", "1000000x8:float32", "--memory-limit", "1MiB")
    assert found.code == 4
    assert "the limit is 1,048,576" in found.err
    assert files.load(Path("assay_analysis") / command.DOCUMENT).run.mode == "meta"


def test_weights_without_code_are_a_partial_result_only_where_time_was_asked_for(analyzed):
    save_file({"w": torch.ones(2, 3)}, "w.safetensors")
    before = Path("w.safetensors").read_bytes()
    assert analyzed("w.safetensors").code == 0
    found = analyzed("w.safetensors", "--inference")
    assert found.code == 4
    assert "partial: time is not known: w.safetensors holds weights without code" in found.err
    assert Path("w.safetensors").read_bytes() == before


def test_interrupted_halfway_nothing_is_written(analyzed):
    before = Path("net.py").read_bytes()
    found = analyzed("net.py::Interrupted", "--inputs", "net.py::get_inputs", "--inference")
    assert found.code == 130
    assert written() == []
    assert Path("net.py").read_bytes() == before
    assert found.out == ""


def test_an_old_result_stays_whole_when_the_new_one_cannot_be_made(analyzed, monkeypatch):
    analyzed("net.py::Net")
    old = {name: (Path("assay_analysis") / name).read_bytes() for name in written()}

    def full(*_: object, **__: object) -> None:
        raise WriteError("cannot write: no space left")

    monkeypatch.setattr(files, "save", full)
    assert analyzed("net.py::Stops").code == 3
    assert {name: (Path("assay_analysis") / name).read_bytes() for name in written()} == old


def test_a_folder_that_cannot_be_is_refused_before_any_work(analyzed):
    Path("taken").write_text("mine")
    found = analyzed("net.py::Loud", "--dir", "taken")
    assert found.code == 3
    assert "cannot create directory taken" in found.err
    assert "a model that prints" not in found.err
    assert Path("taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sweep", "batch=1"], "--sweep needs --inference"),
        (["--passes", "3"], "--passes needs --inference"),
        (["--grid", "FR"], "--grid needs --profile"),
        (["--inference", "--price", "1"], "--price needs --profile"),
        (["--profile", "--grid", "XX"], "no grid is called 'XX'"),
        (["--profile", "--pue", "0.5"], "0.5 is not in the range"),
        (["--profile", "--pue", "nan"], "no finite number"),
        (["--profile", "--price", "-1"], "-1.0 is not in the range"),
        (["--inference", "--sweep", "batch"], "a sweep is written batch=1,2,4"),
        (["--inference", "--sweep", "height=4"], "no height to vary"),
        (["--inference", "--seconds", "nan"], "no finite number"),
        (["--inference", "--threads", "0"], "0 is not in the range"),
        (["--inference", "--optimizer", "sgd"], "it needs --backward"),
        (["--inference", "--backward", "--optimizer", "none"], "no optimizer is called 'none'"),
        (["--memory-limit", "much"], "a size such as 8GiB"),
    ],
    ids=" ".join,
)
def test_what_was_put_wrongly_is_one_line_and_writes_nothing(analyzed, arguments, said):
    found = analyzed("net.py::Net", *arguments)
    assert found.code == 2
    (line,) = [row for row in found.err.splitlines() if "error:" in row]
    assert said in line
    assert found.out == ""
    assert not list(Path().glob("assay_analysis/*"))


@pytest.mark.parametrize("name", ["nowhere.pt", "nowhere.py::f", "net.py::missing"])
def test_what_is_not_there_is_one_line(analyzed, name):
    found = analyzed(name)
    assert found.code in (2, 3)
    assert sum("error:" in row for row in found.err.splitlines()) == 1


def test_a_checkpoint_needs_no_torch(tmp_path, environment):
    save_file({"w": torch.ones(2, 3)}, tmp_path / "w.safetensors")
    code = (
        "import sys\nfrom assay.cli.main import run\ncode = run(['analyze', 'w.safetensors', '-q'])\n"
        "assert 'torch' not in sys.modules and 'textual' not in sys.modules\nsys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "1 tensor, 6 numbers" in ran.stdout
