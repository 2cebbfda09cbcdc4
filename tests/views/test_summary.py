"""The summary: counts compared with torch, and HTML with escaped names."""

from __future__ import annotations

import csv
import io

import msgspec
import pytest
import torch
from frames import framed, parsed
from torch import nn

from assay import observe
from assay.document.document import Document, Run
from assay.document.rows import Module
from assay.views import tables
from assay.views.text import report
from assay.views.text.summary import Summary


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 16)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.act(self.project(x)) + x)


class Small(nn.Module):
    """An embedding tied to the head, a run of blocks, a shared module and one that is not called."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.layers = nn.ModuleList(Block() for _ in range(6))
        self.shared = self.layers[0].project
        self.spare = nn.Linear(4, 4)
        self.head = nn.Linear(16, 32, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.ones(1))

    def forward(self, ids):
        x = self.embed(ids) * self.scale
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.fixture(scope="module")
def small() -> Document:
    document = observe(Small(), torch.zeros(2, 5, dtype=torch.long))
    machine = msgspec.structs.replace(document.machine, torch="2.0")
    return msgspec.structs.replace(document, machine=machine)


def test_counts_equal_those_of_torch(small):
    model = Small()
    root = Summary(small).rows[0]
    assert root.parameters == sum(p.numel() for p in model.parameters())
    linear = 2 * 10 * 16 * 16 * 6 + 2 * 10 * 16 * 32
    assert root.totals.matrix_flops == linear
    assert root.totals == small.cost.forward


def test_full_has_one_row_per_module_and_depth_limits_the_tree(small):
    full = Summary(small, full=True)
    assert [line.path for line in full.rows if line.same_as is None] == [path for path, _ in Small().named_modules()]
    assert {line.run for line in full.rows} == {1}
    assert {line.depth for line in Summary(small, depth=1).rows} == {0, 1}


def test_folded_and_full_rows_have_the_same_totals(small):
    folded, full = Summary(small).rows, Summary(small, full=True).rows
    assert len(folded) < len(full)
    assert sum(line.own_parameters for line in folded) == sum(line.own_parameters for line in full)
    assert sum(line.modules for line in folded) == sum(line.modules for line in full)


def test_data_formats_have_raw_values_of_all_rows(small):
    made = Summary(small)
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(made.report().data))))
    assert [row["path"] for row in rows][:2] == ["(root)", "embed"]
    assert int(rows[0]["parameters"]) == made.rows[0].parameters
    assert {row["same as"]: row["flops"] for row in rows}["layers.0.project"] == ""
    assert len(rows) == len(made.rows)


def test_str_and_repr_are_the_report(small):
    assert str(Summary(small)) == repr(Summary(small)) == report.as_text(Summary(small).report())


def test_exact_values_have_all_digits(small):
    assert f"{small.cost.forward.flops:,} (" in report.as_text(Summary(small, exact=True).report())


def test_html_collapses_without_scripts(small):
    made = Summary(small)
    tags = parsed(framed(made._repr_html_()))
    inner = [one for one, two in zip(made.rows, made.rows[1:], strict=False) if two.depth > one.depth]
    assert tags.seen.count("details") == tags.seen.count("summary") == len(inner)
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert "light-dark(" in tags.texts[0]
    for line in made.rows:
        assert any(line.name in text for text in tags.texts)


def test_names_are_escaped_in_html_and_in_a_terminal(small):
    evil = "<script>alert(1)</script>&\x1b[31m"
    modules = list(small.modules)
    modules[1] = msgspec.structs.replace(modules[1], class_name=evil)
    made = Summary(msgspec.structs.replace(small, modules=modules))
    tags = parsed(framed(made._repr_html_()))
    assert "script" not in tags.seen
    assert any("<script>alert(1)</script>&\\x1b[31m" in text for text in tags.texts)
    assert "\x1b" not in str(made)


def test_only_the_module_that_stopped_the_pass_is_marked():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 4), nn.Linear(4, 4))
    text = report.as_text(Summary(observe(model, torch.ones(2, 4))).report())
    assert text.count("failed") == 1
    assert "Linear, failed" in text
    assert "unknown op" not in text


def test_an_empty_document_has_a_summary():
    assert "no ops recorded" in str(Summary(Document()))
    ran = Document(run=Run("real"), modules=[Module("", "Net", "Net", None)])
    assert "no ops ran" in str(Summary(ran))
    parsed(framed(Summary(Document())._repr_html_()))
