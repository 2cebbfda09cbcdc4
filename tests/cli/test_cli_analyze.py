"""`assay analyze`: the printed report, the written files, and all exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from assay import atomic
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
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    return call


def written() -> list[str]:
    return sorted(path.name for path in Path("assay_analysis").iterdir())


def test_prints_a_report_and_writes_three_files(analyzed):
    result = analyzed("net.py::Net", "--inputs", "net.py::get_inputs")
    assert result.code == 0
    assert written() == [command.DOCUMENT, command.TEXT, command.PAGE]
    document = files.load(Path("assay_analysis") / command.DOCUMENT)
    assert document.cost.forward.matrix_flops == FLOPS
    assert sum(row.count for row in document.weights.tensors) == PARAMETERS
    text = (Path("assay_analysis") / command.TEXT).read_text()
    full = analyzed("net.py::Net", "--inputs", "net.py::get_inputs", "--full", "--force")
    assert text.startswith("Net · MLP · ")
    for section in ("ARCHITECTURE", "PARAMETERS", "COMPUTATION", "MEMORY", "FINDINGS AND RECOMMENDATIONS"):
        assert re.search(f"^{section}", full.out, re.MULTILINE)
        assert re.search(f"^{section}", text, re.MULTILINE)
    assert "ALL OPS" not in text
    assert "ALL OPS" in (Path("assay_analysis") / command.TEXT).read_text()
    assert "assay explore assay_analysis" in result.err
    assert all(row.startswith("assay: ") for row in result.err.splitlines())


def test_inference_measures_time(analyzed):
    result = analyzed("net.py::Net", "--inference", "--passes", "2", "--warmup", "0", "-v")
    assert result.code == 0
    assert "PERFORMANCE: Net on cpu, 1 thread: 2 timed passes" in result.out
    document = files.load(Path("assay_analysis") / command.DOCUMENT)
    assert document.profile.passes == 2
    assert document.profile.threads == 1
    assert document.profile.energy is None
    assert "inputs inferred: 1x8:float32" in result.err


def test_quiet_prints_no_messages_and_model_output_stays_off_stdout(analyzed):
    result = analyzed("net.py::Loud", "-q")
    assert result.code == 0
    assert "a model that prints" not in result.out
    assert "assay:" not in result.err


def test_verbose_lists_skipped_rules(analyzed):
    assert " skipped: " in analyzed("net.py::Net", "-v").err
    assert " skipped: " not in analyzed("net.py::Net", "--force").err


def test_a_pass_that_stops_gives_an_incomplete_result(analyzed):
    result = analyzed("net.py::Stops", "--inference")
    assert result.code == 4
    assert "no further" in result.err
    assert written() == [
        "analysis.partial.assay.json",
        "comprehensive_model_analysis.partial.txt",
        "report.partial.html",
    ]
    assert result.out.splitlines()[0].endswith(" (partial: stopped in (root))")
    assert "computation, memory of a pass (partial: the forward pass stopped in (root)" in result.out


def test_a_memory_limit_gives_an_incomplete_result(analyzed):
    result = analyzed("net.py::Net", "--inputs", "1000000x8:float32", "--memory-limit", "1MiB")
    assert result.code == 4
    assert "the limit is 1,048,576" in result.err
    assert files.load(Path("assay_analysis/analysis.partial.assay.json")).run.mode == "meta"


def test_weights_without_code_are_incomplete_only_if_time_is_requested(analyzed):
    save_file({"w": torch.ones(2, 3)}, "w.safetensors")
    before = Path("w.safetensors").read_bytes()
    assert analyzed("w.safetensors").code == 0
    result = analyzed("w.safetensors", "--inference", "--force")
    assert result.code == 4
    assert "incomplete: time was not measured: w.safetensors contains weights without code" in result.err
    assert Path("w.safetensors").read_bytes() == before


def test_an_interrupted_run_writes_nothing(analyzed):
    before = Path("net.py").read_bytes()
    result = analyzed("net.py::Interrupted", "--inputs", "net.py::get_inputs", "--inference")
    assert result.code == 130
    assert not Path("assay_analysis").exists()
    assert Path("net.py").read_bytes() == before
    assert result.out == ""


def test_existing_files_stay_intact_if_new_ones_cannot_be_written(analyzed, monkeypatch):
    analyzed("net.py::Net")
    old = {name: (Path("assay_analysis") / name).read_bytes() for name in written()}

    def full(*_: object, **__: object) -> None:
        raise WriteError("cannot write: no space left")

    monkeypatch.setattr(atomic, "write_bytes", full)
    assert analyzed("net.py::Net", "--force").code == 3
    assert analyzed("net.py::Net", "--dir", "new/folder").code == 3
    assert not Path("new").exists()
    assert {name: (Path("assay_analysis") / name).read_bytes() for name in written()} == old


def test_existing_files_are_refused_before_any_work_without_force(analyzed):
    analyzed("net.py::Net")
    old = {name: (Path("assay_analysis") / name).read_bytes() for name in written()}
    result = analyzed("net.py::Loud")
    assert result.code == 2
    assert "already exists: choose another name or pass --force" in result.err
    assert "a model that prints" not in result.err
    assert {name: (Path("assay_analysis") / name).read_bytes() for name in written()} == old


def test_a_partial_result_never_replaces_a_complete_one_which_removes_it(analyzed):
    analyzed("net.py::Net")
    old = {name: (Path("assay_analysis") / name).read_bytes() for name in written()}
    assert analyzed("net.py::Stops", "--force").code == 4
    assert {name: (Path("assay_analysis") / name).read_bytes() for name in old} == old
    assert len(written()) == 6
    assert analyzed("net.py::Net", "--force").code == 0
    assert written() == sorted(old)


def test_an_impossible_folder_is_refused_before_any_work(analyzed):
    Path("taken").write_text("mine")
    result = analyzed("net.py::Loud", "--dir", "taken")
    assert result.code == 3
    assert "cannot write into taken" in result.err
    assert "a model that prints" not in result.err
    assert Path("taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sweep", "batch=1"], "--sweep requires --inference or --profile"),
        (["--passes", "3"], "--passes requires --inference"),
        (["--grid", "FR"], "--grid requires --profile"),
        (["--inference", "--price", "1"], "--price requires --profile"),
        (["--profile", "--grid", "XX"], "unknown grid 'XX'"),
        (["--profile", "--pue", "0.5"], "0.5 is not in the range"),
        (["--profile", "--pue", "nan"], "expected a finite number, got nan"),
        (["--profile", "--price", "-1"], "-1.0 is not in the range"),
        (["--inference", "--sweep", "batch"], "expected the form batch=1,2,4"),
        (["--inference", "--sweep", "height=4"], "cannot vary height: no input is an image"),
        (["--inference", "--seconds", "nan"], "expected a finite number, got nan"),
        (["--inference", "--threads", "0"], "0 is not in the range"),
        (["--inference", "--optimizer", "sgd"], "--optimizer requires --backward"),
        (["--inference", "--backward", "--optimizer", "none"], "unknown optimizer 'none'"),
        (["--memory-limit", "much"], "a size such as 8GiB"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_writes_nothing(analyzed, arguments, message):
    result = analyzed("net.py::Net", *arguments)
    assert result.code == 2
    (line,) = [row for row in result.err.splitlines() if "error:" in row]
    assert message in line
    assert result.out == ""
    assert not list(Path().glob("assay_analysis/*"))


@pytest.mark.parametrize("name", ["nowhere.pt", "nowhere.py::f", "net.py::missing"])
def test_a_missing_model_is_one_line(analyzed, name):
    result = analyzed(name)
    assert result.code in (2, 3)
    assert sum("error:" in row for row in result.err.splitlines()) == 1


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
    assert "1 tensor · 6 values" in ran.stdout


@pytest.mark.parametrize(("weights", "code"), [("missing.pt", 3), ("junk.pt", 3), ("net.py", 2)])
def test_given_weights_that_cannot_be_read_are_an_error_before_the_model_runs(analyzed, weights, code):
    Path("junk.pt").write_bytes(b"junk")
    result = analyzed("net.py::Loud", "--weights", weights, "--dir", "files")
    assert result.code == code
    assert result.err.splitlines()[-1].startswith("assay: error: ")
    assert weights in result.err
    assert "a model that prints" not in result.err
    assert not Path("files").exists()


@pytest.mark.parametrize(
    "arguments", [["--no-system"], ["--no-energy", "--no-system"], ["--inference", "--no-system"]]
)
def test_switching_off_what_is_off_is_accepted(analyzed, arguments):
    quick = ["--passes", "1", "--warmup", "0"] if "--inference" in arguments else []
    assert analyzed("net.py::Net", *arguments, *quick).code == 0


def test_switching_on_sensors_without_profile_is_an_error(analyzed):
    result = analyzed("net.py::Net", "--inference", "--system")
    assert result.code == 2
    assert "--system requires --profile" in result.err


def test_the_text_report_of_a_resnet_opens_with_the_answer_and_is_short(in_place, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_place / "cache"))  # limits of this machine would add findings
    example = str(Path(__file__).parents[2] / "examples" / "resnet.py")
    measured = ["--inference", "--passes", "2", "--warmup", "0", "--inputs", "1x3x64x64", "-q"]
    assert run(["analyze", f"{example}::load_model", *measured, "--dir", "out"]) == 0
    text = Path("out/comprehensive_model_analysis.txt").read_text("utf-8")
    first = "\n".join(text.splitlines()[:40])
    assert first.startswith("ResNet · CNN · 25.6 M parameters")
    assert all(words in first for words in ("Memory", "Problems", "FINDINGS"))
    assert len(text.encode()) <= 393_000 / 10
    assert run(["analyze", f"{example}::load_model", *measured, "--dir", "out", "--force", "--full"]) == 0
    whole = Path("out/comprehensive_model_analysis.txt").read_text("utf-8")
    assert "ALL PARAMETERS" in whole
    assert "layer4.2.bn3.running_var" in whole


def test_a_full_report_assesses_kinds_ops_and_tensors(analyzed):
    shown = analyzed("net.py::Net", "--full").out
    assert "PRUNING AND QUANTIZATION BY KIND OF OP" in shown
    assert "no figures for 1 kind of op: reads no weight matrix" in shown
    text = (Path("assay_analysis") / command.TEXT).read_text()
    ops, tensors = text[text.index("ALL OPS") : text.index("ALL PARAMETERS")], text[text.index("ALL PARAMETERS") :]
    (relu,) = (line for line in ops.splitlines() if "relu" in line)
    assert re.search(r"–\s+–\s+–\s+–\s+See M104: ", relu)
    assert re.search(
        r"^first\.weight\n(  .*\n)*?  pruning potential +\d+\.\d %, 0\.0 % in all-zero rows", tensors, re.M
    )
    assert re.search(r"^  quantization sensitivity +(low|medium|high), int8 [\d.]+ dB, int4 ", tensors, re.MULTILINE)
    assert "  recommendation            keep: not a matrix\n" in tensors
    document = files.load(Path("assay_analysis") / command.DOCUMENT)
    assert [one.unknown for one in document.assessment.ops] == ["", "reads no weight matrix", ""]


@pytest.mark.parametrize(
    ("level", "flags", "measured"),
    [
        ("", [], (False, False)),
        ("0", [], (False, False)),
        ("1", [], (True, False)),
        ("2", [], (True, True)),
        ("2", ["--inference"], (True, False)),
        ("0", ["--profile"], (True, True)),
    ],
)
def test_the_environment_chooses_the_depth_unless_an_option_does(analyzed, monkeypatch, level, flags, measured):
    monkeypatch.setenv("PYTORCH_PROFILER_LEVEL", level)
    quick = ["--passes", "1", "--warmup", "0"] if any(measured) else []
    assert analyzed("net.py::Net", *flags, *quick).code == 0
    document = files.load(Path("assay_analysis") / command.DOCUMENT)
    energy = document.profile is not None and document.profile.energy is not None
    assert (document.timing is not None, energy) == measured


@pytest.mark.parametrize(
    ("variable", "value"), [("PYTORCH_PROFILER_LEVEL", "3"), ("PYTORCH_CUDA_MEMORY_FRACTION", "80%")]
)
def test_environment_variables_that_are_not_valid_are_usage_errors(analyzed, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    result = analyzed("net.py::Net")
    assert result.code == 2
    (error,) = (line for line in result.err.splitlines() if "error" in line)
    assert error.startswith(f"assay: error: {variable}={value} is not valid: expected ")
    assert not Path("assay_analysis").exists() or not list(Path("assay_analysis").iterdir())


def test_a_memory_fraction_has_no_effect_without_a_gpu(analyzed, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", "0.001")
    note = "PYTORCH_CUDA_MEMORY_FRACTION=0.001: no effect: nothing ran on a GPU"
    assert note in analyzed("net.py::Net", "-v").err
    quiet = analyzed("net.py::Net", "--force")
    assert (quiet.code, "FRACTION" in quiet.err) == (0, False)


def test_torch_uses_the_threads_of_the_environment(analyzed):
    analyzed("net.py::Net")  # writes the model
    options = ["--inference", "--passes", "1", "--warmup", "0", "--force", "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "assay", "analyze", "net.py::Net", *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert files.load(Path("assay_analysis") / command.DOCUMENT).profile.threads == 1


def test_an_empty_tensor_is_not_missing(analyzed):
    save_file({"weight": torch.randn(8, 8), "none": torch.zeros(0, 4)}, "e.safetensors")
    result = analyzed("e.safetensors")
    assert result.code == 0
    assert "not analysed" not in result.out


def test_kinds_of_op_are_named_by_their_layers_and_alike_ones_share_a_row(analyzed):
    Path("gelu.py").write_text(
        "import torch\nfrom torch import nn\n\nclass Gelu(nn.Module):\n    def forward(self, x):\n"
        "        return 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.04 * x * x * x)))\n\n"
        "def load():\n    return nn.Sequential(nn.Linear(8, 8), Gelu(), nn.Linear(8, 8), nn.Linear(8, 8))\n"
    )
    shown = analyzed("gelu.py::load", "--inputs", "3x8", "--full", "--width", "80").out
    table = shown[shown.index("PRUNING AND QUANTIZATION BY KIND OF OP") :].partition("\n\n")[0]
    rows = [tuple(line.split()[:2]) for line in table.splitlines() if re.match(r"(F|torch)\.", line)]
    assert len(rows) == len(set(rows))
    assert {("F.linear", "0"), ("F.linear", "2–3"), ("torch.mul", "1"), ("torch.add", "1")} <= set(rows)


@pytest.mark.parametrize(
    ("level", "flags", "code"), [("1", [], 0), ("2", [], 0), ("", ["--inference"], 4), ("1", ["--profile"], 4)]
)
def test_time_is_missing_only_if_an_option_asked_for_it(analyzed, monkeypatch, level, flags, code):
    monkeypatch.setenv("PYTORCH_PROFILER_LEVEL", level)
    save_file({"weight": torch.randn(8, 8)}, "w.safetensors")
    result = analyzed("w.safetensors", *flags)
    assert result.code == code
    assert ("incomplete: time was not measured" in result.err) == bool(code)
    assert "time was not measured: w.safetensors contains weights without code" in result.err
