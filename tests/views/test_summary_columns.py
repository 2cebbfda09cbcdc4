"""The columns of a summary: chosen by name, in every format, with shapes and MACs checked against torch."""

from __future__ import annotations

import csv
import io
from math import prod

import pytest
import torch
from frames import framed
from torch import nn

import assay
from assay.errors import UsageError
from assay.views import tables
from assay.views.layout import Style
from assay.views.text.report import as_text
from assay.views.text.summary import Summary
from assay.views.text.summary_columns import ALIASES, COLUMNS

TORCHINFO = ["input_size", "output_size", "num_params", "params_percent", "kernel_size", "groups", "mult_adds"]
TORCHINFO += ["trainable"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 5, bias=False)
        self.spare = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.pool(self.depthwise(self.stem(x))).flatten(1))


X = torch.ones(2, 3, 16, 16)


@pytest.fixture(scope="module")
def document():
    return assay.observe(Net(), X)


def data(document, columns) -> dict[str, dict]:
    return {row["path"]: row for row in Summary(document, columns=columns).report().data.values()}


def test_shapes_and_macs_equal_those_of_torch(document):
    rows = data(document, TORCHINFO)
    model = Net().eval()

    def check(path: str, module: nn.Module, args: tuple, output: torch.Tensor) -> None:
        row = rows[path]
        assert row["input shapes"] == "x".join(map(str, args[0].shape))
        assert row["output shapes"] == "x".join(map(str, output.shape))
        weights = sum(parameter.numel() for parameter in module.parameters())
        assert row["parameters"] == weights
        # torchinfo's formula, which is exact without a bias and for rows of features
        assert row["macs"] == weights * prod((output.shape[0], *output.shape[2:]))

    leaves = {path: module for path, module in model.named_modules() if path and path != "spare"}
    for path, module in leaves.items():
        module.register_forward_hook(lambda module, args, output, path=path: check(path, module, args, output))
    model(X)
    assert (rows["stem"]["kernel size"], rows["depthwise"]["groups"]) == ("7x7", "8")
    assert rows["spare"]["input shapes"] is rows["spare"]["macs"] is None


def test_the_names_of_torchinfo_are_known(document):
    own = "input,output,params,params_percent,kernel,groups,macs,trainable"
    assert data(document, TORCHINFO) == data(document, own)


def test_the_default_columns_are_unchanged(document):
    report = Summary(document).report()
    titles = [column.title for column in report.parts[1].columns]
    assert titles == [
        "layer", "class", "output", "params", "FLOPs", "activations", "share", "trainable", "own params",
    ]  # fmt: skip
    assert list(report.data.values()[0]) == [
        "path", "class", "depth", "run", "modules", "calls", "output shapes", "parameters", "own parameters",
        "trainable", "flops", "macs", "activation bytes", "share", "same as", "tied",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [*COLUMNS, *ALIASES])
def test_every_column_is_shown_in_every_format(document, name):
    made = Summary(document, columns=[name])
    column = COLUMNS[ALIASES.get(name, name)]
    heading = as_text(made.report(), Style(60)).splitlines()[1]
    assert heading.split("  ")[-1].strip() == column.title
    (row, *_) = csv.DictReader(io.StringIO(tables.as_csv(made.report().data)))
    assert column.data_name in row
    assert f"| {column.title} |" in tables.as_markdown(made.report().parts[1])
    assert f"<th>{column.title}</th>" in framed(made._repr_html_())


def test_a_row_for_equal_modules_marks_inputs_that_differ():
    class Convs(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.AdaptiveAvgPool1d(2) for _ in range(2))

        def forward(self, x):
            return self.layers[0](x) + self.layers[1](x[..., 1:])

    rows = Summary(assay.observe(Convs(), torch.ones(1, 3, 8)), columns="input").rows
    assert (rows[-1].run, rows[-1].input_shapes, rows[-1].inputs_vary) == (2, ["1x3x8"], True)


@pytest.mark.parametrize("columns", [["params", "flop"], "params,flop"])
def test_an_unknown_column_is_refused_with_the_known_ones(columns):
    with pytest.raises(UsageError, match="unknown column 'flop': expected input, output, params"):
        assay.summary(Net(), X, columns=columns)


@pytest.mark.parametrize("columns", [[], 3])
def test_columns_must_be_names(columns):
    with pytest.raises(UsageError, match="columns must be a list of names, got"):
        assay.summary(Net(), X, columns=columns)
