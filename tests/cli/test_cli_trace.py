"""`assay trace`: formats, groupings, several files, comparison, exports, exit codes."""

from __future__ import annotations

import csv
import io
import json

import pytest


def event(name, start, length, cat="cpu_op", tid=1, pid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length, "args": args}


def events(scale=1):
    return [
        event("assay:.", 0, 100 * scale),
        event("assay:a", 10, 40 * scale, **{"Input Dims": [[2, 3]]}),
        event("aten::mm", 12, 20 * scale),
        event("cudaLaunchKernel", 13, 2, "cuda_runtime", correlation=5),
        event("gemm", 30, 50 * scale, "kernel", tid=7, pid=0, correlation=5, device=0, stream=7),
        event("lost", 200, 5, "kernel", tid=7, pid=0, correlation=99, device=0, stream=7),
        event("ProfilerStep#1", 0, 300, "user_annotation"),
    ]


@pytest.fixture
def trace(in_place):
    (in_place / "t.json").write_text(json.dumps({"traceEvents": events()}))
    return in_place / "t.json"


def test_the_table_has_every_layer_and_time_outside_layers(cli, trace):
    result = cli("trace", "t.json")
    assert result.code == 0
    lines = result.out.splitlines()
    (layer,) = [line for line in lines if line.startswith("a ")]
    assert layer.split()[:4] == ["a", "1", "50", "µs"]
    assert any(line.startswith("no layer known: no launch record") for line in lines)
    assert any(line.startswith("TOTAL") for line in lines)
    assert "90.9 % attributed to layers" in result.out


def test_json_contains_everything_and_csv_has_raw_values(cli, trace):
    whole = json.loads(cli("trace", "t.json", "--format", "json").out)
    assert whole["gpu_ns"] == 55_000
    rows = list(csv.DictReader(io.StringIO(cli("trace", "t.json", "--format", "csv").out)))
    named = {row["layer"]: row for row in rows}
    assert (named["a"]["gpu_self_ns"], named["a"]["cpu_self_ns"], named["a"]["shapes"]) == (
        "50000",
        "40000",
        "(2, 3)",
    )
    assert sum(int(row["gpu_self_ns"] or 0) for row in rows) == 55_000
    assert sum(int(row["cpu_self_ns"] or 0) for row in rows) == whole["cpu_ns"]
    lines = [
        json.loads(line) for line in cli("trace", "t.json", "--format", "jsonl", "--by", "kernel").out.splitlines()
    ]
    assert {line["kernel"]: line["gpu_ns"] for line in lines} == {"gemm": 50_000, "lost": 5_000}
    assert cli("trace", "t.json", "--format", "md").out.startswith("## ")


@pytest.mark.parametrize(
    ("by", "word"),
    [("op", "aten::mm"), ("kernel", "gemm"), ("step", "ProfilerStep#1"), ("stack", "(model) › a › aten::mm")],
)
def test_groupings(cli, trace, by, word):
    assert word in cli("trace", "t.json", "--by", by).out
    assert cli("trace", "t.json", "--by", by, "--format", "json").code == 0
    assert cli("trace", "t.json", "--by", by, "--format", "csv", "--top", "1").out.count("\n") == 2


def test_sorting_and_top(cli, in_place):
    made = [event(f"assay:l{i}", 100 * i, 10 + i) for i in range(40)]
    (in_place / "many.json").write_text(json.dumps(made))
    rows = list(csv.DictReader(io.StringIO(cli("trace", "many.json", "--format", "csv", "--sort", "self").out)))
    assert [row["layer"] for row in rows[:2]] == ["l39", "l38"]
    assert len(rows) == 41
    short = cli("trace", "many.json").out
    assert "(15 more layers)" in short
    assert "l39" in short
    assert "l2 " in cli("trace", "many.json", "--full").out
    assert "(38 more layers)" in cli("trace", "many.json", "--top", "2").out
    names = cli("trace", "many.json", "--sort", "name", "--top", "1", "--format", "csv").out.splitlines()
    assert names[1].startswith("l0,")


def test_several_files_and_an_unreadable_one(cli, in_place):
    for rank, scale in enumerate((1, 1, 3)):
        (in_place / f"x_rank{rank}.json").write_text(json.dumps(events(scale)))
    result = cli("trace", ".")
    assert result.code == 0
    (line,) = [line for line in result.out.splitlines() if line.endswith("  straggler")]
    assert line.split()[0] == "2"
    (in_place / "x_rank3.json").write_text("oh")
    result = cli("trace", ".", "--format", "json")
    assert result.code == 4
    assert "incomplete: " in result.err
    data = json.loads(result.out)
    assert list(data["failures"]) == ["x_rank3.json"]
    assert [row["rank"] for row in data["models"][0]["ranks"]] == [0, 1, 2]


def test_diff(cli, in_place):
    for side, scale in (("a", 1), ("b", 2)):
        (in_place / side).mkdir()
        for number in range(3):
            (in_place / side / f"p{number}.json").write_text(json.dumps(events(scale)))
    result = cli("trace", "--diff", "a", "b")
    assert result.code == 0
    assert [line.split()[-1] for line in result.out.splitlines() if line.startswith("a ")] == ["slower"]
    one = cli("trace", "--diff", "a/p0.json", "b/p0.json")
    assert "noise is unknown" in one.out
    rows = json.loads(cli("trace", "--diff", "a", "b", "--format", "json").out)["layers"]
    assert rows[0]["verdict"] == "slower"


def test_exports(cli, trace, in_place):
    result = cli("trace", "t.json", "--export", "f.json", "--export-perfetto", "p.json")
    assert result.code == 0
    assert "wrote p.json: 7 events" in result.err
    assert json.loads((in_place / "f.json").read_text())["children"]
    assert len(json.loads((in_place / "p.json").read_text())["traceEvents"]) == 7
    again = cli("trace", "t.json", "--export", "f.json")
    assert (again.code, "exists" in again.err) == (2, True)
    assert cli("trace", "t.json", "--export", "f.folded", "--force").code == 0
    assert "(model);a;aten::mm" in (in_place / "f.folded").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["gone.json"], 3, "no such file"),
        (["empty.json"], 3, "empty.json is empty"),
        (["other.json"], 3, "other.json has no traceEvents"),
        (["code.py"], 3, "code.py is not JSON"),
        (["t.json", "t2.json", "--by", "op"], 2, "several traces are shown by layer: give one file for --by op"),
        (["--diff", "t.json", "t2.json", "--by", "op"], 2, "--diff compares layers"),
        (["t.json", "--address", "auto"], 2, "--address requires --engine ray"),
        ([], 2, "give either trace files"),
        (["t.json", "--diff", "t.json", "t.json"], 2, "give either trace files"),
        (["t.json", "t2.json", "--by", "stack"], 2, "one trace"),
        (["t.json", "--save", "x.assay.json"], 2, "--save"),
        (["t.json", "--export", "no/f.json"], 2, "directory no does not exist"),
    ],
)
def test_wrong_usage_is_one_line(cli, trace, in_place, arguments, code, message):
    (in_place / "empty.json").write_text("")
    (in_place / "other.json").write_text('{"a": 1}')
    (in_place / "code.py").write_text("import torch")
    (in_place / "t2.json").write_text(trace.read_text())
    result = cli("trace", *arguments)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_truncated_file_is_read_and_reported(cli, trace):
    text = trace.read_text()
    trace.write_text(text[: len(text) // 2])
    result = cli("trace", "t.json")
    assert result.code == cli("trace", "t.json", "--by", "stack").code == 4
    assert "assay: incomplete: t.json is truncated" in result.err
    assert "partial: the file is truncated" in result.out
    assert "cut off at the end" in result.out


def test_names_are_escaped(cli, in_place):
    (in_place / "t.json").write_text(json.dumps([event("assay:a%1B[31mred", 0, 5)]))
    out = cli("trace", "t.json").out
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out


def test_it_needs_no_torch(process, trace):
    program = (
        "import sys; from assay.cli.main import run; run(['trace', 't.json', '-q']); print('torch' in sys.modules)"
    )
    import subprocess

    done = subprocess.run(
        [__import__("sys").executable, "-c", program], capture_output=True, text=True, check=True, cwd=trace.parent
    )
    assert done.stdout.splitlines()[-1] == "False"
    assert process("trace", "t.json").returncode == 0
