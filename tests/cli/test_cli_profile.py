"""`assay profile`: formats, files, threads, and all exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from assay.cli.main import run
from assay.document import files
from assay.document.machine import Ceiling, MachineReport, measured_figure
from assay.machine import reports
from assay.machine.hardware import identify

MODEL = """
import torch
from torch import nn


def load_model():
    return nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))


class Third(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        self.count += 1
        if self.count > 3:
            raise RuntimeError("tired")
        return self.layer(x)
"""
QUICK = ("--passes", "3", "--warmup", "0", "--no-system", "--no-energy")


@pytest.fixture
def profiled(tmp_path, monkeypatch, capsys):
    """Runs the command in an empty directory with the model above."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("net.py").write_text(MODEL)

    def call(*arguments: str) -> SimpleNamespace:
        code = run(["profile", *arguments])
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    return call


def test_json_adds_up(profiled):
    result = profiled("net.py::load_model", "--format", "json", *QUICK)
    assert result.code == 0
    data = json.loads(result.out)
    times = [row["time"] for row in data["modules"]]
    whole = data["timing"]["whole"]["value"]
    assert sum(time["self_s"] for time in times) + data["timing"]["outside"]["value"] == pytest.approx(whole)
    assert sum(row["share"] for row in data["operations"]) == pytest.approx(1.0)
    assert data["profile"]["passes"] == 3
    assert {row["bound"] for row in data["operations"]} == {"unknown"}
    assert "assay machine" in result.err


def test_csv_of_ops_has_raw_values(profiled):
    result = profiled("net.py::load_model", "--by", "op", "--format", "csv", *QUICK)
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert sorted(row["op"] for row in rows) == ["torch.nn.functional.linear"] * 2 + ["torch.relu"]
    for row in rows:
        assert float(row["total s"]) == pytest.approx(float(row["each s"]) * int(row["count"]))
    flops = {2 * 8 * 4 + 4, 2 * 4 * 2 + 2}
    linear = [row for row in rows if row["op"].endswith("linear")]
    assert {round(float(row["FLOP/s"]) * float(row["each s"])) for row in linear} == flops


def test_modules_as_a_table_with_top(profiled):
    result = profiled("net.py::load_model", "--by", "module", "--top", "2", *QUICK)
    lines = result.out.splitlines()
    assert lines[0].split()[:3] == ["module", "class", "calls"]
    assert lines[-1].startswith("outside any module")
    assert len(lines) == 6


def test_measured_machine_limits_give_bottlenecks(profiled):
    reports.store_report(
        MachineReport(
            identify("cpu"),
            arithmetic=(Ceiling("fp32", measured_figure(1e30, "hand")),),
            bandwidth=(Ceiling("copy", measured_figure(1e30, "hand")),),
            overhead=(Ceiling("add", measured_figure(1e30, "hand")),),
        )
    )
    result = profiled("net.py::load_model", "--format", "json", *QUICK)
    data = json.loads(result.out)
    assert {row["bound"] for row in data["operations"]} == {"overhead"}
    for row in data["operations"]:
        assert row["recoverable_s"] == pytest.approx(row["total_s"])
    assert "assay machine" not in result.err


def test_threads_are_set_and_restored(profiled):
    before = torch.get_num_threads()
    result = profiled("net.py::load_model", "--format", "json", "--threads", "2", *QUICK)
    assert json.loads(result.out)["profile"]["threads"] == 2
    assert torch.get_num_threads() == before


def test_a_document_is_saved_and_not_overwritten(profiled):
    assert profiled("net.py::load_model", "--save", "a.assay.json", *QUICK).code == 0
    saved = files.load("a.assay.json")
    assert saved.profile.passes == 3
    before = Path("a.assay.json").read_bytes()
    again = profiled("net.py::load_model", "--save", "a.assay.json", *QUICK)
    assert again.code == 2
    assert "--force" in again.err
    assert Path("a.assay.json").read_bytes() == before
    assert not list(Path().glob(".assay-*"))


def test_a_failure_while_timing_keeps_the_recorded_pass(profiled):
    result = profiled("net.py::Third", "--inputs", "2x8:float32", "--format", "json", "--passes", "9", "--no-energy")
    assert result.code == 4
    data = json.loads(result.out)
    assert data["timing"] is None
    assert "tired" in data["profile"]["notes"][-1]
    assert "incomplete: " in result.err


def test_a_memory_limit_gives_an_incomplete_result(profiled):
    result = profiled("net.py::load_model", "--inputs", "1000000x8:float32", "--memory-limit", "1MiB", *QUICK)
    assert result.code == 4
    assert "bytes are predicted, the limit is 1,048,576" in result.err
    assert "nothing was timed" in result.out


def test_sweeps_have_one_row_per_size(profiled):
    result = profiled("net.py::load_model", "--sweep", "batch=4,1,2", "--format", "json", *QUICK)
    (sweep,) = json.loads(result.out)["profile"]["sweeps"]
    assert [point["sizes"]["batch"] for point in sweep["points"]] == [1, 2, 4]
    for point in sweep["points"]:
        assert point["throughput"] == pytest.approx(point["sizes"]["batch"] / point["time"]["value"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--meta"], "cannot profile with --meta"),
        (["--sweep", "batch=0"], "cannot parse the sweep 'batch=0'"),
        (["--sweep", "depth=2"], "cannot vary 'depth'"),
        (["--grid", "XX"], "unknown grid"),
        (["--pue", "0.5"], "not in the range"),
        (["--no-energy", "--grid", "FR"], "cannot be combined with --no-energy"),
        (["--optimizer", "sgd"], "--optimizer requires --backward"),
        (["--threads", "0"], "not in the range"),
        (["--memory-limit", "8"], "a size such as 8GiB"),
        (["-o", "no/where.json"], "directory no does not exist"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line(profiled, arguments, message):
    result = profiled("net.py::load_model", *arguments)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_a_saved_profile_is_shown_and_not_measured_again(profiled):
    first = profiled("net.py::load_model", "--save", "a.assay.json", *QUICK)
    assert first.code == 0
    again = profiled("a.assay.json")
    assert again.code == 0
    tables = [result.out.partition("timed passes")[2] for result in (first, again)]
    assert tables[0] == tables[1] != ""
    assert "--try" not in again.out
    refused = profiled("a.assay.json", "--passes", "3")
    assert refused.code == 2
    assert "--passes does not apply to a saved profile" in refused.err
