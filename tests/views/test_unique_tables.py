"""The tables of unique modules and ops show all values and fit a common terminal."""

from __future__ import annotations

import csv
import io

import pytest
import torch
from handmade import conv_stack
from torch import nn

import assay
from assay.analysis.uniques import unique_modules, unique_ops
from assay.document.document import Document
from assay.document.rows import Module
from assay.views.layout import Style, as_text
from assay.views.tables import Table, as_csv
from assay.views.text.uniques import module_table, op_table


def modules_of(document: Document) -> Table:
    return module_table(unique_modules(document).entries)


def ops_of(document: Document) -> Table:
    return op_table(unique_ops(document, unique_modules(document)))


@pytest.mark.parametrize("table", [modules_of(conv_stack()), ops_of(conv_stack())])
def test_the_table_fits_eighty_columns(table):
    lines = as_text(table, Style(80)).splitlines()
    assert max(map(len, lines)) <= 80
    whole = as_text(table)
    assert len(whole.splitlines()) == 2 + len(table.rows)
    for row in table.values():
        assert all(str(value) in whole for value in row.values() if value)


@pytest.mark.parametrize(("table", "total"), [(modules_of(conv_stack()), 7), (ops_of(conv_stack()), 6)])
def test_the_counts_add_up_to_the_total(table, total):
    rows = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert sum(int(row["count"]) for row in rows) == total


def test_equal_modules_and_calls_have_headings_that_name_them():
    heading = as_text(modules_of(conv_stack())).splitlines()[0].split("  ")
    assert [title.strip() for title in heading if title.strip()][2:5] == ["modules", "calls (first)", "FLOPs (first)"]


def test_the_names_in_csv_stay():
    assert as_csv(modules_of(conv_stack())).startswith("id,class,count,calls,FLOPs,first path,")


def test_a_module_never_called_has_dashes_for_shapes():
    line = as_text(modules_of(Document(modules=[Module("", "A", "p.A", None)]))).splitlines()[2]
    assert line.split() == ["mod_000", "A", "1", "0", "–", "(root)", "–", "–", "–"]


def test_the_attributes_of_an_op_are_shown():
    assert "stride=[1,1] padding=[1,1] dilation=[1,1] groups=1" in as_text(ops_of(conv_stack()))


def test_layers_with_and_without_bias_differ_on_a_narrow_terminal():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8, bias=False))
    text = as_text(modules_of(assay.observe(model, torch.ones(1, 8))), Style(80))
    assert "bias=true" in text
    assert "bias=false" in text
