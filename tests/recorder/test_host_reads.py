"""Reads of tensor values in forward are recorded with their line of code, and change nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import assay

X = torch.arange(8.0).reshape(2, 4)


class Reading(nn.Module):
    """A module whose forward also calls a function with the result of a layer."""

    def __init__(self, function):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.function = [function]

    def forward(self, x):
        y = self.layer(x)
        self.function[0](y)
        return y


def reads(function, **options):
    document = assay.observe(Reading(function), X, **options)
    assert document.run.failure is None
    return document.host_reads


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda y: y[0, 0].item(), ["item"]),
        (lambda y: int(y[0, 0]), ["item"]),
        (lambda y: range(y.argmax()), ["item"]),
        (lambda y: [float(each) for each in y[0]], ["item"] * 4),
        (lambda y: bool(y.sum() > 0), ["bool"]),
        (lambda y: 1 if (y > 0).any() else 0, ["bool"]),
        (lambda y: torch.equal(y, y), ["bool"]),
        (lambda y: y.tolist(), ["tolist"]),
        (lambda y: y.numpy(), ["numpy"]),
        (lambda y: np.asarray(y), ["numpy"]),
        (lambda y: np.linalg.norm(y), ["numpy"]),
        (lambda y: y.detach().cpu().numpy(), ["numpy"]),
        (lambda y: y.nonzero(), ["sizes"]),
        (lambda y: y[y > 0], ["sizes"]),
        (lambda y: torch.unique(y), ["sizes"]),
        (lambda y: torch.where(y > 0), ["sizes"]),
        (lambda y: torch.repeat_interleave(y, torch.tensor([1, 2]), dim=0), ["sizes"]),
        (lambda y: y.to("meta"), ["copy"]),
        (lambda y: y.to(torch.empty(1, device="meta")), ["copy"]),
        (lambda y: torch.empty(2, 4, device="meta").copy_(y), ["copy"]),
        (lambda y: torch.empty(2, 4).copy_(y), []),
        (lambda y: y.to(torch.empty(1)), []),
        (lambda y: torch.repeat_interleave(y, torch.tensor([1, 2]), dim=0, output_size=3), []),
        (lambda y: y[[0, 1]], []),
        (lambda y: torch.where(y > 0, y, 0.0), []),
        (lambda y: y.cpu(), []),
        (lambda y: y.to(torch.float64), []),
        (lambda y: (y.shape, len(y), y.dim(), y.resolve_neg()), []),
        (lambda y: y.masked_fill(y > 0, 0.0), []),
    ],
)
def test_what_is_read(function, what):
    found = reads(function)
    assert [each.what for each in found] == what
    here = {f"{Path(__file__).name}:{function.__code__.co_firstlineno}"}
    assert {each.source.rpartition("/")[2] for each in found} == (here if what else set())


def test_the_source_is_relative_and_the_op_is_the_one_that_reads():
    document = assay.observe(Reading(lambda y: y.sum().item()), X)
    (read,) = document.host_reads
    assert not Path(read.source).is_absolute()
    assert document.kinds[document.ops[read.op].kind].target == "aten.item.default"
    assert document.modules[document.module_of(document.ops[read.op])].path == ""


def test_a_library_is_named_by_its_import_path(tmp_path, monkeypatch):
    package = tmp_path / "somelib" / "inner"
    package.mkdir(parents=True)
    (package / "code.py").write_text("def read(y):\n    return y.sum().item()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from somelib.inner.code import read

    assert [each.source for each in reads(read)] == ["somelib/inner/code.py:2"]


def test_values_are_those_of_a_plain_pass():
    torch.manual_seed(0)
    model = Reading(lambda y: None)
    with torch.no_grad():
        expected = model(X)

    def compare(y):
        assert np.allclose(y.tolist(), expected.tolist())  # a product may round differently at another address
        assert np.allclose(y.numpy(), expected.numpy())
        assert bool(y.sum() > 0) == bool(expected.sum() > 0)

    model.function = [compare]
    document = assay.observe(model, X)
    assert document.run.failure is None
    assert len(document.host_reads) == 6


@pytest.mark.parametrize("mode", ["meta", "fake"])
def test_values_that_stay_known_without_data_are_not_copies(mode):
    def mixed(y):
        mask = torch.ones(2, 4, dtype=torch.bool)
        return y.masked_fill(mask.to(y.device), 0.0), y.cpu()

    assert reads(mixed, mode=mode) == []


def test_reads_are_recorded_on_shapes_too():
    assert [each.what for each in reads(lambda y: y.sum().item(), mode="meta")] == ["item"]


def test_reads_survive_a_saved_document(tmp_path):
    document = assay.observe(Reading(lambda y: y.tolist()), X)
    assay.save(document, tmp_path / "m.assay.json")
    assert assay.load(tmp_path / "m.assay.json").host_reads == document.host_reads


def test_a_read_only_array_within_reach_of_the_model_is_left_alone():
    table = np.arange(4.0)
    table.flags.writeable = False
    model = Reading(lambda y: table.sum())
    assert assay.observe(model, X).run.failure is None
    assert not table.flags.writeable
