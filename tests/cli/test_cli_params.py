"""`assay params`: formats, exit codes, imports, memory use, interruption, and invalid files."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

from assay.checkpoint.statistics.journal import SUFFIX
from assay.cli.progress import ProgressLine

DTYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "U8": np.uint8}


def write(path, tensors, extra=None):
    """Write a safetensors file of numpy arrays without the safetensors package."""
    kinds = {np.dtype(kind): name for name, kind in DTYPES.items()}
    header, data = {}, b""
    for name, array in tensors.items():
        end = len(data) + array.nbytes
        header[name] = {"dtype": kinds[array.dtype], "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.tobytes()
    for name, dtype in (extra or {}).items():
        header[name] = {"dtype": dtype, "shape": [4], "data_offsets": [len(data), len(data) + 4]}
        data += b"\0" * 4
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def blocks(count=12, seed=0):
    rng = np.random.default_rng(seed)
    return {f"layers.{i}.weight": rng.normal(0, 0.1, (16, 24)).astype(np.float32) for i in range(count)}


@pytest.fixture
def model(in_place):
    return write(in_place / "m.safetensors", blocks() | {"ids": np.arange(-5, 5), "half": np.ones(3, np.float16)})


def test_the_values_match_numpy(cli, model):
    result = cli("params", "m.safetensors", "--format", "json", "-q")
    assert (result.code, result.err) == (0, "")
    rows = {each["names"][0]: each for each in json.loads(result.out)["weights"]["tensors"]}
    for name, array in blocks().items():
        values = array.astype(np.float64)
        assert rows[name]["l1"] == pytest.approx(np.abs(values).sum(), rel=1e-12)
        assert rows[name]["quantiles"][5] == pytest.approx(np.median(values), rel=1e-12)
        assert (rows[name]["min"], rows[name]["max"]) == (values.min(), values.max())
    assert (rows["ids"]["mean"], rows["half"]["distinct"]) == (-0.5, 1)


def test_the_table_is_folded_unless_full(cli, model):
    folded, full = cli("params", "m.safetensors").out, cli("params", "m.safetensors", "--full").out
    assert "layers.0–11.weight ×12" in folded
    assert "layers.7.weight" not in folded
    assert "layers.7.weight" in full
    assert "float32" in folded.partition("Totals by dtype")[2]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_row_formats_have_one_row_per_tensor(cli, model, form):
    out = cli("params", "m.safetensors", "--format", form, "--sort", "max", "--top", "3", "--filter", "layers").out
    rows = list(csv.DictReader(io.StringIO(out))) if form == "csv" else [json.loads(row) for row in out.splitlines()]
    largest = sorted((float(array.max()) for array in blocks().values()), reverse=True)
    assert [float(row["max"]) for row in rows] == largest[:3]
    assert rows[0]["dtype"] == "float32"


def test_markdown_and_histograms(cli, model):
    out = cli("params", "m.safetensors", "--format", "md", "--histogram").out
    assert out.startswith("## ")
    assert "Histogram: layers" in out


def test_a_listing_reads_no_values(cli, model, in_place):
    os.truncate(model, model.stat().st_size)
    result = cli("params", "m.safetensors", "--list", "--full")
    assert (result.code, result.err) == (0, "")
    assert "16x24" in result.out
    assert "entropy" not in result.out


def test_a_document_is_saved_and_opened_again(cli, model, in_place):
    first = cli("params", "m.safetensors", "--save", "d.assay.json", "--format", "csv")
    again = cli("params", "d.assay.json", "--format", "csv")
    assert again.code == 0
    assert again.out == first.out
    model.unlink()
    assert "layers.0–11.weight ×12" in cli("params", "d.assay.json").out
    assert sorted(path.name for path in in_place.iterdir()) == ["d.assay.json"]
    assert cli("params", "d.assay.json", "--save", "d.assay.json").code == 2


def test_names_are_escaped(cli, in_place):
    hostile = "a\x1b[31m\x1b]0;owned\x07\u202e\r\nassay: error"
    write(in_place / "m", {hostile: np.zeros(4, np.float32), "b": np.zeros(4, np.float32)}, {hostile + "2": "F9"})
    for form in ("table", "md", "csv"):
        for more in ([], ["--full"], ["--list"]):
            result = cli("params", "m", "--format", form, *more)
            assert not (set(result.out + result.err) & {"\x1b", "\x07", "\u202e", "\r"})
            assert "a\\x1b" in result.out.replace("\\\\", "\\")


BAD = {
    "empty": (b"", "is empty"),
    "page": (b"<!doctype html><html></html>", "HTML page"),
    "pointer": (b"version a://git-lfs\noid sha256:0\nsize 1\n", "git-LFS pointer"),
    "noise": (bytes(range(7, 250)), "not a file that Assay reads"),
    "long-header": (struct.pack("<Q", 1 << 62) + b"{}", "its header has"),
    "cut": (struct.pack("<Q", 80) + b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'.ljust(80), "w"),
    "zip": (b"PK\3\4" + b"\0" * 60, ""),
    "pickle": (b"\x80\x02}q\0(X\1\0\0\0aK", ""),
    "text": (b'{"hello": 1}', "weight_map"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line(cli, in_place, name):
    data, message = BAD[name]
    (in_place / name).write_bytes(data)
    result = cli("params", name)
    assert (result.code, result.out) == (3, "")
    assert len(result.err.splitlines()) == 1
    assert result.err.startswith("assay: error: ")
    assert message in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 3, "no such file or directory: nowhere"),
        (["."], 3, "directory without a model"),
        (["m.safetensors", "--filter", "("], 2, "is not a valid regular expression"),
        (["m.safetensors", "--sort", "weight"], 2, "weight"),
        (["m.safetensors", "--engine", "dask"], 2, "dask"),
        (["m.safetensors", "--resume", "/"], 3, "cannot read"),
        (["m.safetensors", "--address", "auto"], 2, "--address requires --engine ray"),
        (["m.safetensors", "--sort", "norm"], 2, "--sort norm requires --spectral"),
        (["m.safetensors", "--list", "--sort", "entropy"], 2, "--sort entropy requires statistics: remove --list"),
        (["m.safetensors", "--list", "--spectral"], 2, "--spectral cannot be combined with --list"),
        (["torch.nn:Identity", "--resume"], 2, "--resume requires a checkpoint file, got torch.nn:Identity"),
        (["nowhere.assay.json"], 3, "no such file or directory"),
    ],
)
def test_wrong_usage_is_one_line(cli, in_place, arguments, code, message):
    if arguments[0].startswith("m."):
        write(in_place / "m.safetensors", blocks(2))
    result = cli("params", *arguments)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_a_filter_without_a_match_is_reported(cli, in_place):
    write(in_place / "m.safetensors", blocks(2))
    result = cli("params", "m.safetensors", "--filter", "zzz")
    assert result.code == 0
    assert "no tensor name matches 'zzz'" in result.err


def test_a_tensor_of_unknown_type_is_listed_and_the_rest_analysed(cli, in_place):
    write(in_place / "m", {"good": np.ones(5, np.float32)}, {"odd": "F9"})
    result = cli("params", "m", "--format", "json", "-q")
    assert result.code == 4
    assert result.err.splitlines() == ["assay: incomplete: not analysed: odd: unknown dtype F9"]
    rows = {each["names"][0]: each for each in json.loads(result.out)["weights"]["tensors"]}
    assert rows["odd"]["problem"]
    assert rows["good"]["mean"] == 1
    assert "Not analysed" in cli("params", "m").out
    assert cli("params", "m", "--list").code == 0


def test_a_missing_shard_is_named_and_the_rest_is_kept(cli, in_place):
    write(in_place / "a.safetensors", {"x": np.ones(5, np.float32)})
    places = {"x": "a.safetensors", "y": "b.safetensors"}
    (in_place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    for arguments in ([], ["--list"]):
        result = cli("params", ".", *arguments)
        assert result.code == 4
        assert "b.safetensors" in result.err
        assert "x " in result.out


def test_trailing_bytes_need_lenient(cli, model):
    model.write_bytes(model.read_bytes() + b"more")
    assert cli("params", "m.safetensors").code == 3
    assert cli("params", "m.safetensors", "--lenient").code == 0


@pytest.fixture
def interrupted(monkeypatch):
    """Simulates Ctrl-C after half of the bytes."""

    def stop(self, done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "read", stop)
        yield patch


@pytest.mark.parametrize(
    ("place", "journal"),
    [([], f"m.safetensors{SUFFIX}"), (["-o", "out.csv"], f"out.csv{SUFFIX}"), (["--resume=j"], "j")],
)
def test_ctrl_c_keeps_finished_tensors_and_resume_continues(cli, model, in_place, interrupted, place, journal):
    arguments = ["params", "m.safetensors", "--format", "csv", "--workers", "1"]
    result = cli(*arguments, *place)
    assert result.code == 130
    assert journal in result.err
    assert result.err.splitlines()[-1] == "assay: interrupted"
    kept = len((in_place / journal).read_text().splitlines())
    assert 0 < kept < 14
    interrupted.undo()
    whole = cli(*arguments).out
    resumed = cli(*arguments, *(place if "--resume=j" in place else [*place, "--resume"]))
    assert resumed.code == 0
    assert (resumed.out or (in_place / "out.csv").read_text()) == whole
    assert (in_place / journal).exists() == ("--resume=j" in place)


def test_a_complete_run_removes_the_journal_it_created_under_a_given_name(cli, model, in_place):
    assert cli("params", "m.safetensors", "--resume", "nofile").code == 0
    assert not (in_place / "nofile").exists()


def test_a_complete_run_leaves_no_journal(cli, model, in_place):
    cli("params", "m.safetensors")
    cli("params", "m.safetensors", "-o", "out.txt")
    assert sorted(path.name for path in in_place.iterdir()) == ["m.safetensors", "out.txt"]


def child(in_place, environment, *arguments):
    """The modules imported by a child process that ran the command, and its peak memory in bytes."""
    program = (
        "import re, sys\n"
        "from assay.cli.main import run\n"
        "code = run(sys.argv[1:])\n"
        "status = open('/proc/self/status').read() if sys.platform == 'linux' else 'VmHWM: 0'\n"
        "print(code, re.search(r'VmHWM:\\s+(\\d+)', status)[1], *sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program, "params", "-q", *arguments]
    done = subprocess.run(command, env=environment, cwd=in_place, capture_output=True, text=True, check=True)
    code, peak, *modules = done.stderr.split()
    assert code == "0", done.stderr
    return {name.partition(".")[0] for name in modules}, int(peak) << 10


def test_nothing_heavy_is_imported(model, in_place, environment):
    modules, _ = child(in_place, environment, "m.safetensors")
    assert "numpy" in modules
    assert not modules & {"torch", "transformers", "safetensors", "fsspec", "ray", "psutil", "asyncio", "subprocess"}
    modules, _ = child(in_place, environment, "m.safetensors", "--list")
    assert not modules & {"torch", "numpy", "psutil"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads peak memory from /proc")
@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_memory_does_not_grow_with_the_file(in_place, environment, dtype):
    """A sparse file of 200 MB needs no disk space, but reading it whole would raise the peak memory."""
    size = 200 << 20
    shape = [size // {"BF16": 2, "F32": 4}[dtype] // 1024, 1024]
    header = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    (in_place / "m").write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(in_place / "m", 8 + len(header) + size)
    _, peak = child(in_place, environment, "m")
    assert peak < 256 << 20


MODULE = """
import pathlib
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def __setstate__(self, state):
        pathlib.Path("ran").touch()
        print("hello")
        super().__setstate__(state)
        self.register_buffer("made", torch.full((5,), 7.0))
"""


def test_code_runs_only_with_trust_and_in_another_process(process, in_place, environment):
    (in_place / "net.py").write_text(MODULE)
    make = "import torch, net; torch.save(net.Net(), 'm.pt')"
    subprocess.run([sys.executable, "-c", make], env=environment, cwd=in_place, check=True)
    read = process("params", "m.pt", "--format", "jsonl")
    assert (read.returncode, (in_place / "ran").exists()) == (0, False)
    assert [json.loads(row)["tensor"] for row in read.stdout.splitlines()] == ["fc.weight", "fc.bias"]
    output = process("params", "m.pt").stdout
    assert "code not run" in output
    assert "net.Net" in output
    trusted = process("params", "m.pt", "--trust", "--format", "jsonl")
    assert trusted.returncode == 0, trusted.stderr
    assert (in_place / "ran").exists()
    assert "hello" in trusted.stderr
    rows = {row["tensor"]: row for row in map(json.loads, trusted.stdout.splitlines())}
    assert (rows["made"]["mean"], rows["made"]["count"]) == (7, 5)
    (in_place / "net.py").unlink()
    failed = process("params", "m.pt", "--trust")
    assert (failed.returncode, failed.stdout) == (3, "")
    assert "needs the module net, which cannot be imported from here" in failed.stderr.splitlines()[0]


def test_only_the_first_row_can_be_shown(cli, model):
    rows = cli("params", "m.safetensors", "--format", "csv", "--top", "1").out.splitlines()
    assert len(rows) == 2
    assert cli("params", "m.safetensors", "--top", "0").code == 2


def test_potential_sensitivity_and_recommendation_are_columns(cli, in_place):
    matrix = np.random.default_rng(0).uniform(-1, 1, (64, 128)).astype(np.float32)
    write(in_place / "m.safetensors", {"layer.weight": matrix, "ids": np.arange(3)})
    columns = "pruning_potential,quantization_sensitivity,recommendation"
    shown = cli("params", "m.safetensors", "--columns", columns).out
    assert "25.0 %" in shown
    assert "low" in shown
    assert "Quantize to int4 per row" in shown
    assert "keep: int64 values are neither pruned nor rounded" in shown
    rows = list(csv.DictReader(io.StringIO(cli("params", "m.safetensors", "--format", "csv").out)))
    assert {name: rows[0][name] for name in columns.split(",")} == {
        "pruning_potential": "0.25",
        "quantization_sensitivity": "low",
        "recommendation": "Quantize to int4 per row",
    }
    assert (rows[1]["pruning_potential"], rows[1]["quantization_sensitivity"]) == ("", "")
    first, second = json.loads(cli("params", "m.safetensors", "--format", "json").out)["assessment"]["tensors"]
    assert (first["name"], first["pruning_potential"], first["action"]) == ("layer.weight", 0.25, "quantize")
    assert second["unknown"] == "int64 values are neither pruned nor rounded"
    assert "pruning_potential" not in second
    assert "assessment" not in json.loads(cli("params", "m.safetensors", "--list", "--format", "json").out)


def test_the_prunable_tensors_come_first(cli, in_place):
    values = np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32)
    write(in_place / "m.safetensors", {"dense.weight": values, "sparse.weight": values * (values > 1)})
    rows = cli("params", "m.safetensors", "--sort", "prunable", "--format", "csv").out.splitlines()
    assert [row.partition(",")[0] for row in rows[1:]] == ["sparse.weight", "dense.weight"]


def test_an_unknown_column_is_refused_before_anything_is_read_or_printed(cli, model, monkeypatch):
    monkeypatch.setattr("assay.api.weights.weights_document", lambda *_, **__: pytest.fail("values were read"))
    for form in ("table", "csv"):
        result = cli("params", "m.safetensors", "--columns", "tensor,conut", "--format", form)
        assert (result.code, result.out) == (2, "")
        assert "unknown column 'conut': did you mean count?" in result.err


def test_columns_without_values_are_accepted(cli, model):
    result = cli("params", "m.safetensors", "--columns", "name,role,norm")
    assert (result.code, result.err) == (0, "")
    assert re.search(r"^layers.0–11.weight ×12 +– +–$", result.out, re.MULTILINE)
    rows = list(
        csv.DictReader(io.StringIO(cli("params", "m.safetensors", "--columns", "name,role", "--format", "csv").out))
    )
    assert {row["role"] for row in rows} == {""}
