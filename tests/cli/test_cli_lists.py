"""`assay modules` and `assay ops`: formats, files, messages and the arguments of the recorder."""

from __future__ import annotations

import csv
import io
import json

import pytest
from handmade import conv_stack, stopped

from assay.document import files

UNIQUE = {"modules": 5, "ops": 4}
COMMANDS = pytest.mark.parametrize("command", list(UNIQUE))


@COMMANDS
def test_the_default_is_a_table(cli, command):
    result = cli(command, "m.py::f", "--wide", document=conv_stack())
    assert result.code == 0
    assert len(result.out.splitlines()) == 2 + UNIQUE[command]
    assert result.out.startswith("id")


@COMMANDS
def test_json_is_the_file(cli, command):
    result = cli(command, "m.py::f", "--format", "json", document=conv_stack())
    parsed = json.loads(result.out)
    assert parsed["metadata"][f"unique_{command}"] == len(parsed[command]) == UNIQUE[command]


@COMMANDS
def test_jsonl_has_the_entries_of_json(cli, command):
    whole = json.loads(cli(command, "m", "--format", "json", document=conv_stack()).out)
    lines = cli(command, "m", "--format", "jsonl", document=conv_stack()).out.splitlines()
    assert [json.loads(line) for line in lines] == whole[command]


@COMMANDS
def test_csv_and_markdown_have_the_same_rows(cli, command):
    rows = list(csv.DictReader(io.StringIO(cli(command, "m", "--format", "csv", document=conv_stack()).out)))
    lines = cli(command, "m", "--format", "md", document=conv_stack()).out.splitlines()
    assert len(rows) == len(lines) - 2 == UNIQUE[command]
    assert sum(int(row["count"]) for row in rows) == {"modules": 7, "ops": 6}[command]


def test_totals_go_to_stderr_and_quiet_silences_them(cli):
    shown = cli("modules", "m", document=conv_stack())
    assert shown.err == "assay: 7 modules, 5 unique\n"
    quiet = cli("modules", "m", "-q", document=conv_stack())
    assert (quiet.err, quiet.out) == ("", shown.out)


def test_output_of_the_model_goes_to_stderr(cli):
    result = cli("modules", "m", "--format", "json", document=conv_stack(), noise="loading weights\n")
    assert json.loads(result.out)
    assert result.err.startswith("loading weights\n")


def test_inferred_inputs_are_reported_in_one_line(cli):
    inferred = conv_stack(inputs_from="inferred: 1x3 from the first layer", inputs_kind="inferred")
    first = cli("ops", "m", document=inferred).err.splitlines()[0]
    assert first == "assay: inputs inferred: 1x3 from the first layer (set them with --inputs)"
    assert "inputs" not in cli("ops", "m", document=conv_stack()).err


def test_verbose_lists_assumptions(cli):
    document = conv_stack(assumptions=("the batch is 1",))
    assert "the batch is 1" not in cli("modules", "m", document=document).err
    assert "assay: assumed: the batch is 1\n" in cli("modules", "m", "-v", document=document).err


@COMMANDS
def test_an_incomplete_document_is_shown_and_exits_with_4(cli, command):
    result = cli(command, "m", "-q", document=stopped("boom\nand more"))
    assert result.code == 4
    assert result.err == (
        "assay: incomplete: the forward pass stopped in module 3 (Conv2d) at torch.conv2d: boom and more\n"
    )
    assert result.out == "Partial: stopped in 3\n" + cli(command, "m", document=conv_stack()).out


def test_every_option_reaches_the_recorder(cli):
    arguments = ["--inputs", "1x3", "--model-args", '{"a": [1]}', "--device", "cpu", "--dtype", "float16"]
    received = cli("ops", "m.py::f", *arguments, "--fake", "--train", "--trust", document=conv_stack()).received
    assert received == {
        "model": "m.py::f",
        "inputs": "1x3",
        "model_args": {"a": [1]},
        "device": "cpu",
        "dtype": "float16",
        "mode": "fake",
        "train": True,
        "as_is": False,
        "trust": True,
        "backward": False,
    }


@pytest.mark.parametrize(("flags", "mode"), [([], "auto"), (["--meta"], "meta"), (["--real"], "real")])
def test_modes(cli, flags, mode):
    assert cli("ops", "m", *flags, document=conv_stack()).received["mode"] == mode


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', "nan"])
def test_model_args_must_be_an_object(cli, text):
    result = cli("ops", "m", "--model-args", text, document=conv_stack())
    assert result.code == 2
    assert result.err.startswith("assay: error: invalid value for '--model-args'")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "md"])
def test_a_file_gets_the_same_output_as_stdout(cli, in_place, form):
    shown = cli("modules", "m", "--format", form, document=conv_stack())
    filed = cli("modules", "m", "--format", form, "-o", "out", document=conv_stack())
    assert filed.out == ""
    assert (in_place / "out").read_text() == shown.out


@pytest.mark.parametrize("option", ["-o", "--save"])
def test_nothing_is_overwritten_without_force(cli, in_place, option):
    target = in_place / "kept.assay.json"
    target.write_text("mine")
    refused = cli("modules", "m", option, target.name, document=conv_stack())
    assert (refused.code, refused.received) == (2, {})
    assert target.read_text() == "mine"
    assert cli("modules", "m", option, target.name, "--force", document=conv_stack()).code == 0
    assert target.read_text() != "mine"


def test_the_document_can_be_saved_too(cli, in_place):
    cli("ops", "m", "--save", "d.assay.json.gz", document=conv_stack())
    assert files.load(in_place / "d.assay.json.gz") == conv_stack()


def test_a_pipe_has_no_color_unless_requested(cli, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in cli("modules", "m", document=conv_stack()).out
    assert "\x1b" in cli("modules", "m", "--color", "always", document=conv_stack()).out


@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
def test_a_terminal_gets_color_and_a_fitted_table_unless_no_color(cli, monkeypatch, no_color, colored):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    result = cli("ops", "m", document=conv_stack())
    assert ("\x1b" in result.out) is colored
    assert "attributes" not in result.out.splitlines()[0]
    assert "columns hidden" in result.out.splitlines()[-1]
    assert "\x1b" not in cli("ops", "m", "--color", "never", document=conv_stack()).out


@pytest.mark.parametrize(
    ("variables", "colored"),
    [
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, True),  # force-color.org: regardless of its value
        ({"FORCE_COLOR": ""}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False),
    ],
)
def test_color_in_a_pipe_follows_the_environment(cli, monkeypatch, variables, colored):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b" in cli("ops", "m", document=conv_stack()).out) is colored


def test_linear_layers_with_and_without_bias_are_two_rows_that_differ(cli, in_place):
    (in_place / "m.py").write_text(
        "from torch import nn\n"
        "def load_model():\n"
        "    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 4))\n"
    )
    arguments = ("modules", "m.py::load_model", "--inputs", "2x4:float32")
    linear = [line.split()[2:] for line in cli(*arguments, "--wide").out.splitlines() if " Linear " in line]
    assert [(row[0], row[-1]) for row in linear] == [("2", "bias=true"), ("1", "bias=false")]
    entries = json.loads(cli(*arguments, "--format", "json").out)["modules"][1:]
    settings = {"in_features": 4, "out_features": 4}
    assert [entry["parameters"] for entry in entries] == [{**settings, "bias": True}, {**settings, "bias": False}]
    assert [entry["occurrences"] for entry in entries] == [["0", "2"], ["1"]]


@pytest.mark.parametrize(("flags", "mode"), [([], "auto"), (["--real"], "real"), (["--meta"], "meta")])
def test_the_mode_is_auto_unless_a_flag_sets_it(cli, flags, mode):
    assert cli("modules", "m.py::f", *flags, document=conv_stack()).received["mode"] == mode
