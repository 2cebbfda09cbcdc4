"""`assay extract`: writes both files or neither."""

from __future__ import annotations

import json

import pytest
from handmade import conv_stack, stopped

from assay.errors import ReadError

NAMES = ["pytorch_ops.json", "unique_modules.json"]


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_files_go_into_a_directory_named_for_the_model(cli, in_place):
    result = cli("extract", "--model-path", "m.py::f", "--inputs-path", "m.py::g", document=conv_stack())
    assert result.code == 0
    assert (result.received["model"], result.received["inputs"]) == ("m.py::f", "m.py::g")
    assert names(in_place / "Sequential") == NAMES
    assert result.out.splitlines() == ["Sequential/unique_modules.json", "Sequential/pytorch_ops.json"]
    assert result.err == "assay: 7 modules, 5 unique; 6 ops, 4 unique\n"


def test_the_directory_can_be_chosen_and_overwritten(cli, in_place):
    assert cli("extract", "m", "--dir", "a/b", document=stopped()).code == 4
    assert cli("extract", "m", "--dir", "a/b", document=conv_stack()).code == 0
    assert names(in_place / "a" / "b") == NAMES
    modules = json.loads((in_place / "a" / "b" / "unique_modules.json").read_text())
    assert modules["metadata"]["provenance"]["complete"] is True


def test_the_files_match_the_output_of_modules_and_ops(cli, in_place):
    cli("extract", "m", "--dir", "out", document=conv_stack())
    for command, name in (("modules", "unique_modules.json"), ("ops", "pytorch_ops.json")):
        printed = cli(command, "m", "--format", "json", document=conv_stack()).out
        assert (in_place / "out" / name).read_text() == printed


def test_an_incomplete_document_is_written_with_exit_code_4(cli, in_place):
    result = cli("extract", "m", document=stopped())
    assert result.code == 4
    assert names(in_place / "Sequential") == NAMES
    assert result.err.splitlines()[-1].startswith("assay: incomplete: ")


@pytest.mark.parametrize("arguments", [[], ["a", "--model-path", "b"]])
def test_exactly_one_model(cli, arguments):
    result = cli("extract", *arguments, document=conv_stack())
    assert result.code == 2
    assert result.err.startswith("assay: error: expected one model")


def test_an_impossible_directory_is_refused_before_the_model_runs(cli, in_place):
    (in_place / "file").write_text("")
    result = cli("extract", "m", "--dir", "file/out", document=conv_stack())
    assert (result.code, result.received) == (3, {})
    assert result.err.startswith("assay: error: cannot write into file/out")


@pytest.mark.parametrize("failure", [ReadError("gone"), KeyboardInterrupt()])
def test_nothing_is_written_without_a_document(cli, in_place, failure):
    assert cli("extract", "m", "--dir", "out", document=failure).code in (3, 130)
    assert names(in_place) == []
