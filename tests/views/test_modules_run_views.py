"""What did not run: a dash instead of zero, its name, and the share of modules that ran, in every view."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import assay
from assay.analysis.memory import memory_of
from assay.views import tables
from assay.views.json.cost import cost_file
from assay.views.json.files import encode
from assay.views.json.memory import memory_file
from assay.views.json.summary import summary_file
from assay.views.tables import Table
from assay.views.text import report as reports
from assay.views.text.cost import CostOptions, cost_report, cost_table
from assay.views.text.memory import report as memory_report
from assay.views.text.partial_report import marked
from assay.views.text.summary import Summary

LINE = "1 of 3 with parameters (33.3 %); not run: tower, spare"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.text = nn.Linear(4, 4)
        self.spare = nn.Linear(4, 4)

    def forward(self, x):
        return self.text(x)


@pytest.fixture(scope="module")
def document():
    return assay.observe(Model(), torch.ones(2, 4), backward=True)


def by_name(table: Table, name: str) -> dict[str, dict]:
    return {row[name]: row for row in table.values()}


def test_the_share_is_printed_beside_the_totals(document):
    for report in (Summary(document).report(), cost_report(document, document.cost, CostOptions())):
        (line,) = [line for line in reports.as_text(report).splitlines() if line.startswith("modules run ")]
        assert line.removeprefix("modules run").strip() == LINE


def test_titles_state_that_totals_cover_part_of_the_model(document):
    assert str(Summary(document)).startswith("Model: summary (33.3 % of modules run)\n")
    assert "(33.3 % of modules run)" in Summary(document)._repr_html_()
    by_class = marked(cost_table(document, document.cost, "class", CostOptions()), document)
    assert reports.as_text(by_class).startswith("33.3 % of modules run\n")
    assert "run" not in tables.as_csv(by_class.data)


def test_a_model_that_ran_completely_names_nothing():
    text = str(Summary(assay.observe(nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2))))
    assert text.startswith("Sequential: summary\n")
    assert "modules run  1 of 1 with parameters\n" in text


@pytest.mark.parametrize("path", ["tower", "tower.0", "tower.1", "spare"])
def test_the_rows_of_what_did_not_run_are_unknown(document, path):
    row = by_name(Summary(document, full=True).report().data, "path")[path]
    assert [row[name] for name in ("flops", "macs", "activation bytes", "share")] == [None] * 4
    costs = by_name(cost_table(document, document.cost, "module", CostOptions()), "module")[path]
    unknown = ("share", "self FLOPs", "total FLOPs", "self MACs", "self bytes", "total bytes", "backward self FLOPs")
    assert {name: costs[name] for name in unknown} == dict.fromkeys(unknown)


def test_the_parameters_of_what_did_not_run_are_known(document):
    rows = by_name(Summary(document, full=True).report().data, "path")
    assert (rows["tower"]["parameters"], rows["spare"]["own parameters"]) == (20, 20)


def test_a_class_of_which_nothing_ran_is_unknown(document):
    rows = by_name(cost_table(document, document.cost, "class", CostOptions()), "class")
    assert rows["Tanh"]["total FLOPs"] is None
    assert rows["Linear"]["total FLOPs"] == 2 * 2 * 4 * 4 + 2 * 4


def test_json_has_the_share_and_no_zeros(document):
    files = (
        cost_file(document, document.cost),
        summary_file(document, document.cost, Summary(document).rows),
        memory_file(document, memory_of(document), fits=[], batches={}),
    )
    expected = {"ran": 1, "of": 3, "not_run": ["tower", "spare"]}
    cost, summary, memory = (json.loads(encode(file)) for file in files)
    assert cost["modules_run"] == summary["modules_run"] == memory["modules_run"] == expected
    tower = next(module for module in cost["modules"] if module["module_path"] == "tower")
    assert tower["total"]["flops"] is tower["total"]["bytes"] is tower["self"]["bytes"] is tower["backward"] is None
    layer = next(layer for layer in summary["layers"] if layer["module_path"] == "tower")
    assert layer["total"]["macs"] is layer["total"]["bytes_written"] is None
    assert layer["parameters"] == 20


def test_the_memory_of_what_did_not_run_is_noted(document):
    text = reports.as_text(memory_report(memory_of(document), document))
    assert "2 of 3 modules with parameters did not run: their activations are unknown" in text
