"""`assay check`: formats, options, exit codes and sources."""

from __future__ import annotations

import csv
import io
import json
import re

import msgspec
import numpy as np
import pytest
from handmade import conv_stack, stopped

from assay.analysis.cost.totals import with_cost
from assay.document import files
from assay.document.document import Document
from assay.document.weights import TensorStatistics, WeightsReport
from assay.findings.catalogue import rules


def bad_weights():
    row = TensorStatistics(("a.weight",), "float32", (8, 8), 256, 64, nan=3, inf=0, zeros=0, min=0.0, max=1.0)
    return Document(weights=WeightsReport(tensors=[row]))


def hostile():
    document = bad_weights()
    row = msgspec.structs.replace(document.weights.tensors[0], names=("a[bold]\x1b[31m|x",))
    return Document(weights=WeightsReport(tensors=[row]))


def test_one_block_per_finding_and_a_summary_line(cli):
    result = cli("check", "m", document=bad_weights())
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "model in memory · 1 tensor · 64 values"
    assert "✗ 3 NaN values in 1 tensor: a.weight (W101)" in lines[3]
    assert "W101 error: 3 NaN values in 1 tensor: a.weight" in lines
    assert any(line.strip().startswith("advice") for line in lines)
    assert lines[-1].startswith("1 error (")
    assert f"{len(rules())}" not in lines[-1]


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "md"])
def test_every_format(cli, form):
    out = cli("check", "m", "--format", form, document=bad_weights()).out
    read = {
        "json": lambda: json.loads(out)["findings"][0]["code"],
        "jsonl": lambda: json.loads(out.splitlines()[0])["code"],
        "csv": lambda: next(csv.DictReader(io.StringIO(out)))["code"],
    }.get(form, lambda: "W101" if "W101" in out else "")
    assert read() == "W101"


def test_names_are_escaped(cli):
    for form in ("table", "md", "csv"):
        assert "\x1b" not in cli("check", "m", "--format", form, document=hostile()).out


def test_the_exit_code_is_one_only_with_fail_on(cli):
    assert cli("check", "m", document=bad_weights()).code == 0
    assert cli("check", "m", "--fail-on", "error", document=bad_weights()).code == 1
    assert cli("check", "m", "--fail-on", "warning", document=bad_weights()).code == 1
    assert cli("check", "m", "--fail-on", "warning", "--ignore", "W1", document=bad_weights()).code == 0
    assert cli("check", "m", "--fail-on", "error", document=with_cost(conv_stack())).code == 0


def test_a_pass_that_stopped_gives_an_incomplete_result(cli):
    result = cli("check", "m", document=stopped())
    assert result.code == 4
    assert "skipped: see -v" in result.out


def test_rules_are_selected_and_verbose_says_why_they_are_skipped(cli):
    chosen = cli("check", "m", "--select", "W1", "--format", "json", document=bad_weights())
    assert json.loads(chosen.out)["rules"] == sum(rule.code.startswith("W1") for rule in rules())
    verbose = cli("check", "m", "--select", "S1,M1", "-v", document=bad_weights())
    assert "S101 skipped: the document has no modules" in verbose.err
    assert "M103 skipped: no forward pass was recorded" in verbose.err
    assert "skipped)" in verbose.out
    assert "see -v" not in verbose.out
    assert cli("check", "m", "--select", "Q", document=bad_weights()).code == 2


def test_a_saved_document_holds_the_findings(cli, in_place):
    assert cli("check", "m", "--save", "x.assay.json", document=bad_weights()).code == 0
    assert [finding.code for finding in files.load("x.assay.json").findings] == ["W101"]
    again = cli("check", "m", "--save", "x.assay.json", document=bad_weights())
    assert again.code == 2
    assert "exists" in again.err


def test_the_list_of_rules(cli):
    assert len(json.loads(cli("check", "--rules", "--format", "json").out)["rules"]) == len(rules())
    assert cli("check", "--rules", "--select", "W101").out.count("W1") == 1
    assert cli("check").code == 2


def write_safetensors(path, **arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_a_checkpoint_is_read_without_torch(process, in_place):
    bad = np.ones((8, 8), np.float32)
    bad[0, 0] = np.nan
    write_safetensors(in_place / "m.safetensors", **{"layers.0.weight": bad, "layers.1.weight": bad})
    (in_place / "torch.py").write_text("raise ImportError('torch was imported')")
    result = process("check", "m.safetensors", "--fail-on", "error", PYTHONSAFEPATH="")
    assert result.returncode == 1, result.stderr
    assert "2 NaN values in 2 tensors: layers.0–1.weight" in result.stdout


def test_run_options_are_refused_if_nothing_runs(process, in_place):
    write_safetensors(in_place / "m.safetensors", weight=np.ones((2, 2), np.float32))
    result = process("check", "m.safetensors", "--train", "--inputs", "x")
    assert result.returncode == 2
    assert "inputs, train cannot be used with m.safetensors, which is not run" in result.stderr


def test_weights_of_another_model_are_reported(cli, in_place):
    import torch

    (in_place / "m.py").write_text("import torch\ndef load(): return torch.nn.Sequential(torch.nn.Linear(3, 2))\n")
    for name, prefix in (("other.pt", "a.b."), ("own.pt", "0.")):
        torch.save({f"{prefix}weight": torch.ones(2, 3), f"{prefix}bias": torch.ones(2)}, in_place / name)
    result = cli("check", "m.py::load", "--inputs", "1x3", "--weights", "other.pt")
    assert result.code == 0
    assert "0 of 2 tensor names in other.pt match the model" in result.err
    assert "match the model" not in cli("check", "m.py::load", "--inputs", "1x3", "--weights", "own.pt").err


def test_a_checkpoint_with_a_missing_shard_gives_an_incomplete_result(cli):
    document = bad_weights()
    lost = msgspec.structs.replace(document.weights, failures=("shard 2 is missing",))
    result = cli("check", "m", document=Document(weights=lost))
    assert result.code == 4
    assert "incomplete: shard 2 is missing" in result.err
    assert "W101" in result.out


def test_weights_from_a_separate_file(cli, in_place):
    bad = np.full((8, 8), np.nan, np.float32)
    write_safetensors(in_place / "w.safetensors", weight=bad)
    result = cli("check", "m", "--weights", "w.safetensors", "--select", "W101", document=with_cost(conv_stack()))
    assert "64 NaN values" in result.out


def test_unreadable_files_are_one_line(process, in_place):
    (in_place / "broken.safetensors").write_bytes(b"nothing of use")
    for name in ("broken.safetensors", "missing.assay.json"):
        result = process("check", name)
        assert result.returncode == 3
        assert result.stderr.count("\n") == 1


def test_a_trace_cannot_be_tried(cli, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}')
    result = cli("check", str(path), "--try")
    assert result.code == 2
    assert "traces cannot be tried" in result.err


def test_trials_are_part_of_the_json(cli, tmp_path):
    file = tmp_path / "net.py"
    file.write_text("from torch import nn\n\n\ndef load():\n    return nn.Linear(8, 8)\n")
    options = ("--no-measure", "--no-weights", "--trial-seconds", "0.02", "--format", "json")
    result = json.loads(cli("check", f"{file}::load", *options, "--try", "inference_mode", "channels_last").out)
    verdicts = {trial["changes"][0]: trial.get("verdict", "not applicable") for trial in result["trials"]}
    assert set(verdicts) == {"inference_mode", "channels_last"}
    assert verdicts["channels_last"] == "not applicable"
    assert result["trials"][0]["outputs"]["identical"]
    assert "trials" not in json.loads(cli("check", f"{file}::load", *options).out)


def two_problems():
    row = bad_weights().weights.tensors[0]
    infinite = msgspec.structs.replace(row, names=("b.weight",), nan=0, inf=2)
    return Document(weights=WeightsReport(tensors=[row, infinite]))


def test_top_and_sort_choose_the_blocks_and_leave_the_brief_whole(cli):
    whole = cli("check", "m", document=two_problems()).out
    codes = re.findall(r"^(\w+) error:", whole, re.M)
    assert len(codes) == 2
    first = cli("check", "m", "--top", "1", "--sort", "code", document=two_problems()).out
    assert re.findall(r"^(\w+) error:", first, re.M) == sorted(codes)[:1]
    assert "1 more finding not shown (--top)" in first
    assert first.partition("\n\n")[0] == whole.partition("\n\n")[0]
    assert all(f"({code})" in first for code in codes)


def test_an_unknown_column_to_sort_by_is_refused_before_the_model_runs(cli):
    result = cli("check", "m", "--sort", "gian", document=two_problems())
    assert (result.code, result.out) == (2, "")
    assert "did you mean gain?" in result.err
