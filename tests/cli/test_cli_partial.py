"""A pass that stops midway is marked as partial in every view, and unknown figures are not zeros."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import torch
from handmade import conv_stack, stopped
from safetensors.torch import save_file
from torch import nn

import assay
from assay.api.extract import extract_pytorch_ops, extract_unique_modules
from assay.cli.main import run
from assay.errors import InputsError, PartialError, UsageError

MODEL = """
import torch
from torch import nn


class Stops(nn.Module):
    def forward(self, x):
        raise ValueError("no further")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.stops, self.last = nn.Linear(4, 8), Stops(), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.stops(self.first(x)))


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(self.layer(self.layer(x))[:, :3])


def whole():
    model = Net()
    model.stops = nn.ReLU()
    return model
"""
COMMANDS = (
    "cost",
    *(f"cost --by {grouping}" for grouping in ("category", "kind", "op", "module", "class", "call")),
    "cost --device H100",
    "summary",
    "memory",
    "modules",
    "ops",
    "check",
    "profile",
)
MACS = 3 * 4 * 8


@pytest.fixture
def net(in_place, monkeypatch) -> Path:
    (in_place / "net.py").write_text(MODEL)
    monkeypatch.syspath_prepend(str(in_place))
    return in_place


@pytest.fixture
def weights(in_place) -> str:
    """A document that holds the weights of a checkpoint: 2x3 values and 3 values of float32."""
    torch.save(nn.Linear(2, 3).state_dict(), "w.pt")
    assert run(["params", "w.pt", "--save", "w.assay.json", "-q", "-o", "w.txt"]) == 0
    return "w.assay.json"


def arguments(command: str, *options: str) -> list[str]:
    return [*command.split(), "net.py::Net", "--inputs", "3x4", *options]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", ["table", "md"])
def test_the_title_of_a_partial_result_says_so(net, capsys, command, form):
    assert run(arguments(command, "--format", form, "--wide")) == 4
    first = capsys.readouterr().out.splitlines()[0]
    assert "partial" in first.lower()
    assert first.rstrip(")").endswith("stopped in stops")


@pytest.mark.parametrize("command", COMMANDS)
def test_rows_and_json_of_a_partial_result_have_the_key_partial(net, capsys, command):
    run(arguments(command, "--format", "csv"))
    text = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert text.splitlines()[0].endswith(",partial")
    assert {row["partial"] for row in rows} <= {"True"}
    run(arguments(command, "--format", "jsonl"))
    assert all(json.loads(line)["partial"] is True for line in capsys.readouterr().out.splitlines())
    run(arguments(command, "--format", "json"))
    assert json.loads(capsys.readouterr().out)["partial"] is True


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "profile"])
def test_a_complete_result_has_no_mark(net, capsys, command):
    for form in ("table", "json", "csv"):
        assert run([*command.split(), "net.py::whole", "--inputs", "3x4", "--format", form]) == 0
        out = capsys.readouterr().out.lower()
        assert "(partial" not in out
        assert '"partial"' not in out
        assert ",partial" not in out


def test_every_total_of_a_partial_cost_is_marked_and_no_coverage_is_claimed(net, capsys):
    run(arguments("cost", "--exact", "--wide"))
    facts = dict(
        line.split("  ", 1)
        for line in capsys.readouterr().out.split("one forward pass")[1].split("\n\n")[0].splitlines()[1:]
    )
    totals = set(facts) - {"parameters", "convention", "captured"}
    assert "MACs (partial)" in totals
    assert all(name.endswith(" (partial)") for name in totals)
    assert facts["MACs (partial)"].strip() == str(MACS)
    assert "%" not in facts["coverage (partial)"]
    run(arguments("cost", "--format", "json"))
    file = json.loads(capsys.readouterr().out)
    assert (file["coverage"], file["failure"]["module"]) == (None, "stops")


def test_totals_of_summary_and_memory_are_marked(net, capsys):
    run(arguments("summary"))
    shown = capsys.readouterr().out
    assert all(f"\n{name} (partial) " in shown for name in ("FLOPs", "activations", "memory", "coverage"))
    run(arguments("memory"))
    shown = capsys.readouterr().out
    assert "inference: peak (partial)" in shown
    html = assay.summary("net.py::Net", torch.zeros(3, 4))._repr_html_()
    assert "Net (partial: stopped in stops)" in html


def test_modules_that_were_not_reached_have_unknown_figures(net, capsys):
    for by in ("module", "class"):
        run(arguments("cost", "--by", by, "--format", "csv"))
        rows = {row["class"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
        assert [rows["Stops"][key] for key in ("self FLOPs", "total FLOPs", "self bytes", "total bytes")] == [""] * 4


def rows_of(capsys, arguments: list[str]) -> list[dict[str, str]]:
    run([*arguments, "--format", "csv"])
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_the_call_that_stopped_has_unknown_figures(net, capsys):
    by_call = ["--inputs", "3x4", "--by", "call"]
    rows = rows_of(capsys, ["cost", "net.py::Loop", *by_call])
    each = str(3 * (2 * 4 * 4 + 4))
    assert [row["self FLOPs"] for row in rows] == ["0", each, each, ""]
    assert [rows[3][key] for key in ("share", "total FLOPs", "self MACs", "self bytes", "total bytes")] == [""] * 5
    run(["cost", "net.py::Stops", *by_call])
    total = capsys.readouterr().out.splitlines()[-1].split()
    assert total == ["total", "(partial)", *["–"] * 6]


@pytest.mark.parametrize("by", ["category", "kind", "op", "module", "class", "call"])
def test_a_pass_without_recorded_ops_has_no_count_of_ops(net, capsys, by):
    run(["cost", "net.py::Stops", "--inputs", "3x4", "--by", by])
    header, *rows = [line for line in capsys.readouterr().out.splitlines()[1:] if not line.startswith("─")]
    assert "unknown ops" not in header
    assert rows[-1].startswith("total (partial)")
    assert " 0 " not in rows[-1]


@pytest.mark.parametrize("command", ["cost", "summary"])
def test_the_json_of_a_pass_without_recorded_ops_has_no_count_of_ops(net, weights, capsys, command):
    for source in (["net.py::Stops", "--inputs", "3x4"], [weights]):
        run([command, *source, "--format", "json"])
        file = json.loads(capsys.readouterr().out)
        totals = [file["totals"], *(row["total"] for row in file.get("modules", []) + file.get("layers", []))]
        assert {value for sums in totals for value in sums.values()} == {None}


def test_a_complete_pass_without_ops_has_zero_ops(in_place, capsys):
    assert run(["cost", "torch.nn:Identity", "--inputs", "3x4", "--format", "json"]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert (totals["ops"], totals["unknown_ops"], totals["flops"]) == (0, 0, 0)


@pytest.mark.parametrize("verb", ["observe", "cost", "memory", "summary", "check", "analyze", "profile"])
def test_every_verb_warns_and_returns_a_marked_result(net, verb):
    with pytest.warns(assay.PartialWarning, match=r"stopped in stops \(Stops\): ValueError: no further") as caught:
        result = getattr(assay, verb)("net.py::Net", torch.zeros(3, 4))
    assert caught[0].filename == __file__
    assert result.partial is True
    cost = result if verb == "cost" else getattr(getattr(result, "document", result), "cost", None)
    assert cost is None or cost.forward.macs == MACS


def test_the_analysis_of_a_partial_pass_lists_what_is_missing(net):
    missing = assay.analyze("net.py::Net", torch.zeros(3, 4)).missing
    assert {"computation", "memory of a pass"} <= set(missing)
    assert all("stopped in stops" in missing[name] for name in ("computation", "memory of a pass"))


def test_inputs_that_do_not_match_forward_are_an_error_and_a_wrong_shape_is_a_partial_result(net):
    for verb in (assay.observe, assay.cost, assay.memory, assay.summary, assay.check, assay.analyze):
        with pytest.raises(InputsError):
            verb("net.py::whole", (torch.zeros(3, 4), torch.zeros(1)))
        assert verb("net.py::whole", torch.zeros(3, 5)).partial


@pytest.mark.parametrize("option", ["-o", "--save"])
def test_a_partial_result_is_written_beside_the_complete_one(net, option):
    complete = ["cost", "net.py::whole", "--inputs", "3x4", "--format", "json", option, "r.assay.json"]
    partial = [*arguments("cost", "--format", "json"), option, "r.assay.json"]
    assert run(partial) == 4
    assert sorted(path.name for path in net.glob("r.*")) == ["r.partial.assay.json"]
    assert run(complete) == 0
    before = (net / "r.assay.json").read_bytes()
    assert sorted(path.name for path in net.glob("r.*")) == ["r.assay.json"]
    assert run([*partial, "--force"]) == 4
    assert (net / "r.assay.json").read_bytes() == before


def test_a_message_names_the_file_of_a_partial_result(net, capsys):
    assert run([*arguments("cost", "-q"), "-o", "c.csv", "--save", "c.assay.json"]) == 4
    err = capsys.readouterr().err.splitlines()
    assert "assay: the partial result is in c.partial.csv" in err
    assert "assay: the partial result is in c.partial.assay.json" in err
    for options in ([], ["-o", "/dev/stdout"]):
        run([*arguments("cost"), *options])
        assert "the partial result is in" not in capsys.readouterr().err
    assert run(["cost", "net.py::whole", "--inputs", "3x4", "-o", "c.csv"]) == 0
    assert "c.csv" not in capsys.readouterr().err


def test_the_extract_functions_keep_a_complete_file(net):
    import net as models

    inputs = lambda: torch.zeros(3, 4)  # noqa: E731
    extract_unique_modules(models.whole, inputs, "m.json")
    before = Path("m.json").read_bytes()
    with pytest.raises(PartialError, match=r"what was recorded is in m\.partial\.json"):
        extract_unique_modules(models.Net, inputs, "m.json")
    assert Path("m.json").read_bytes() == before
    assert json.loads(Path("m.partial.json").read_text())["partial"] is True
    with pytest.warns(assay.PartialWarning):
        assert extract_pytorch_ops("m.partial.json", models.Net, inputs)["partial"] is True
    with pytest.raises(UsageError, match=r"m\.json already exists"):
        extract_unique_modules(models.whole, inputs, "m.json", overwrite=False)
    extract_unique_modules(models.whole, inputs, "m.json")
    assert not Path("m.partial.json").exists()


def test_the_figures_of_a_document_of_weights_are_unknown(weights, capsys):
    assert run(["cost", weights]) == 0
    shown = capsys.readouterr().out
    assert "parameters        9 including buffers, 36 B (as stored)" in shown
    assert "MACs              –\n" in shown
    assert "bytes written     –\n" in shown
    assert run(["summary", weights]) == 0
    assert "FLOPs        –\n" in capsys.readouterr().out
    assert run(["cost", weights, "--format", "json"]) == 0
    file = json.loads(capsys.readouterr().out)
    assert file["parameters"]["stored"] == {"elements": 9, "bytes": 36}
    assert file["parameters"]["count"] is None
    assert file["totals"]["macs"] is file["totals"]["bytes"] is None
    assert file["provenance"]["complete"] is False


def test_the_memory_of_a_document_of_weights_is_that_of_its_tensors(weights):
    memory = assay.memory(weights)
    assert memory.parameters.value == 36
    assert [figure.value for figure in (memory.buffers, memory.gradients, memory.optimizer.bytes)] == [None] * 3
    assert assay.roofline(weights, "H100").bound_s is None


@pytest.mark.parametrize("command", ["modules", "ops", "extract"])
def test_a_document_of_weights_has_no_modules_to_list(weights, capsys, command):
    assert run([command, weights]) == 3
    assert "w.pt has no recorded pass: give the model itself" in capsys.readouterr().err


def test_empty_inputs_are_reported(net, capsys):
    assert run(["cost", "net.py::whole", "--inputs", "0x4"]) == 0
    shown = capsys.readouterr()
    assert "input args[0] is empty (0x4)" in shown.out
    assert "assay: input args[0] is empty (0x4): most ops compute nothing" in shown.err


def test_an_unknown_peak_is_shown_with_its_reason(net, weights, capsys):
    for source, mark, reason in (
        (["net.py::Stops", "--inputs", "3x4"], " (partial)", "no ops were recorded before the stop"),
        (["torch.nn:Identity", "--inputs", "3x4"], "", "no ops ran"),
        ([weights], "", "no pass was recorded"),
    ):
        rows = {row["what"]: row for row in rows_of(capsys, ["memory", *source])}
        for what in ("alive at the peak", "peak"):
            row = rows[f"inference: {what}{mark}"]
            assert (row["bytes"], row["how"], row["note"]) == ("", "unknown", reason)
    assert assay.memory(weights).inference_peak.value is None
    memory = assay.memory("net.py::whole", torch.zeros(3, 4))
    assert memory.inference_peak == memory.inference.total


def test_whether_weights_alone_fit_is_unknown(weights, capsys):
    assert run(["memory", weights, "--fit", "H100"]) == 0
    assert "unknown whether it fits" in capsys.readouterr().err


def test_a_partial_peak_may_not_fit_but_never_surely_fits(net, capsys):
    """The true peak is at least the one before the stop, so only `no` is certain."""
    run(arguments("memory", "--fit", "H100,1KiB"))
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-1] for line in shown if line[:1] in (["H100"], ["1KiB"])] == ["unknown", "no"]
    run(arguments("memory", "--fit", "H100,1KiB", "--format", "json"))
    assert [fit["fits"] for fit in json.loads(capsys.readouterr().out)["fits"]] == [None, False]
    assert run(["memory", "net.py::whole", "--inputs", "3x4", "--fit", "H100", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["fits"][0]["fits"] is True


def test_totals_without_a_lost_shard_are_partial(in_place, capsys):
    for number in (1, 2):
        save_file({f"w{number}": torch.ones(2, 2)}, f"m-0000{number}-of-00002.safetensors")
    index = {"weight_map": {f"w{number}": f"m-0000{number}-of-00002.safetensors" for number in (1, 2)}}
    Path("m.safetensors.index.json").write_text(json.dumps(index))
    Path("m-00002-of-00002.safetensors").unlink()
    assert run(["params", "m.safetensors.index.json", "--save", "m.assay.json"]) == 4
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].endswith("partial: 1 file not read or incomplete")
    assert "\ntotal (partial) " in shown
    run(["params", "m.partial.assay.json", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["partial"] is True
    run(["params", "m.partial.assay.json", "--format", "csv"])
    assert capsys.readouterr().out.splitlines()[0].endswith(",partial")
    run(["cost", "m.partial.assay.json"])
    assert "4 including buffers, 16 B (as stored; partial: files not read)" in capsys.readouterr().out


def test_a_partial_document_does_not_replace_a_complete_one(tmp_path):
    path = tmp_path / "model.assay.json"
    assay.save(conv_stack(), path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="holds a complete document, and this one is partial"):
        assay.save(stopped("boom"), path)
    assert path.read_bytes() == before
    other = tmp_path / "other.assay.json"
    assay.save(stopped("boom"), other)
    assay.save(stopped("boom again"), other)
    assay.save(conv_stack(), other)
    assert assay.load(other).complete
