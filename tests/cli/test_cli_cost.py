"""`assay cost` and `assay summary`: formats, options, exit codes and the arguments of the recorder."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
from handmade import conv_stack, stopped

from assay.analysis.cost.totals import with_cost
from assay.cli import cost as command
from assay.views.text.cost import SORTS
from assay.views.text.cost_lines import BREAKDOWNS

MACS = 224 * 224 * 64 * 9 * (3 + 64)


def unknown_norm():
    document = conv_stack()
    kinds = list(document.kinds)
    kinds[1] = msgspec.structs.replace(kinds[1], target="mylib.norm.default")
    return with_cost(msgspec.structs.replace(document, kinds=kinds))


def test_the_choices_match_the_views():
    assert set(command.GROUPINGS) == set(BREAKDOWNS)
    assert set(command.SORTS) == set(SORTS)


def test_the_default_is_the_report(cli):
    result = cli("cost", "m", "--exact", document=conv_stack())
    assert result.code == 0
    assert result.out.startswith("Sequential · CNN · 38.6 k parameters · 1.94 G MACs · input 1x3x224x224\n")
    assert "\nSequential: one forward pass\n" in result.out
    assert f"{MACS:,}\n" in result.out
    assert result.out.index("By type of op") < result.out.index("Most expensive kinds of op")


@pytest.mark.parametrize("by", command.GROUPINGS)
@pytest.mark.parametrize("form", ["table", "csv", "jsonl", "md"])
def test_every_grouping_in_every_format(cli, by, form):
    result = cli("cost", "m", "--by", by, "--format", form, "--wide", document=conv_stack())
    assert result.code == 0
    rows = {"category": 3, "kind": 4, "op": 3, "module": 7, "class": 4, "call": 7}[by]
    around = {"table": 4, "csv": 1, "jsonl": 0, "md": 3}[form]
    assert len(result.out.splitlines()) == rows + around


def test_csv_has_raw_values(cli):
    rows = list(
        csv.DictReader(io.StringIO(cli("cost", "m", "--by", "op", "--format", "csv", document=conv_stack()).out))
    )
    assert {row["op"]: row["MACs"] for row in rows}["torch.conv2d"] == str(MACS)


def test_json_contains_everything_for_any_grouping(cli):
    whole = cli("cost", "m", "--format", "json", document=conv_stack()).out
    assert cli("cost", "m", "--format", "json", "--by", "op", "--top", "1", document=conv_stack()).out == whole
    assert json.loads(whole)["totals"]["macs"] == MACS


def test_top_sort_and_depth_reach_the_table(cli):
    lines = cli("cost", "m", "--by", "op", "--top", "1", "--sort", "count", document=conv_stack()).out.splitlines()
    assert lines[2].startswith("torch.batch_norm")
    assert lines[4].startswith("(2 more)")
    assert "(6 deeper)" in cli("cost", "m", "--by", "module", "--depth", "0", document=conv_stack()).out


def test_strict_fails_with_the_list_after_the_data(cli):
    result = cli("cost", "m", "--strict", document=unknown_norm())
    assert result.code == 1
    assert result.err == (
        "assay: strict: ops without a formula: mylib::norm ×2 (add formulas with assay.register_cost)\n"
    )
    assert "66.6 % of 6 ops counted" in result.out
    assert cli("cost", "m", document=unknown_norm()).code == 0
    assert cli("cost", "m", "--strict", document=conv_stack()).code == 0


def test_backward_reaches_the_recorder(cli):
    assert cli("cost", "m", "--backward", document=conv_stack()).received["backward"] is True
    assert cli("cost", "m", document=conv_stack()).received["backward"] is False


@pytest.mark.parametrize("name", ["cost", "summary"])
def test_an_incomplete_document_is_shown_and_exits_with_4(cli, name):
    result = cli(name, "m", "--format", "json", document=stopped())
    assert result.code == 4
    assert json.loads(result.out)["provenance"]["complete"] is False


@pytest.mark.parametrize(
    "arguments", [["--by", "color"], ["--top", "0"], ["--depth", "-1"], ["--sort", "name"], ["--by"]]
)
def test_invalid_values_are_usage_errors(cli, arguments):
    result = cli("cost", "m", *arguments, document=conv_stack())
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(("form", "lines"), [("csv", 8), ("jsonl", 7)])
def test_a_summary_as_data(cli, form, lines):
    assert len(cli("summary", "m", "--format", form, document=conv_stack()).out.splitlines()) == lines


def test_the_columns_of_a_summary_are_chosen(cli):
    out = cli("summary", "m", "--columns", "input,mult_adds", document=conv_stack()).out
    assert out.splitlines()[1].split() == ["layer", "class", "input", "MACs"]
    rows = cli("summary", "m", "--columns", "input,mult_adds", "--format", "csv", document=conv_stack()).out
    assert rows.splitlines()[0] == "path,class,depth,run,modules,input shapes,macs,same as,tied"


def test_an_unknown_column_is_refused_before_anything_runs(cli):
    result = cli("summary", "m", "--columns", "input,shape", document=conv_stack())
    assert (result.code, result.out, result.received) == (2, "", {})
    assert "unknown column 'shape': expected input, output" in result.err


def test_a_summary_of_a_saved_document(cli):
    result = cli("summary", "m", "--depth", "1", "--exact", document=with_cost(conv_stack()))
    assert result.code == 0
    assert f"({MACS:,} MACs)" in result.out
    assert "\n├ 0 " in result.out
    assert "\n├ 0 " not in cli("summary", "m", "--depth", "0", document=conv_stack()).out


def test_a_device_of_the_table_shows_its_roofline(cli):
    assert cli("cost", "m", "--device", "H100", "--by", "op", document=with_cost(conv_stack())).code == 2
    result = cli("cost", "m", "--device", "H100", document=with_cost(conv_stack()))
    assert result.code == 0
    assert "bound" in result.out
    assert result.received["device"] is None, "the roofline's device is not where the model runs"


def test_a_torch_device_is_the_device_to_run_on(cli):
    result = cli("cost", "m", "--device", "cuda:1", document=with_cost(conv_stack()))
    assert result.code == 0
    assert result.received["device"] == "cuda:1"


def test_an_unknown_device_is_refused_with_similar_names(cli):
    result = cli("cost", "m", "--device", "H10", document=conv_stack())
    assert result.code == 2
    assert "H100" in result.err
