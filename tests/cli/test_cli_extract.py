"""`assay extract`: writes both files or neither."""

from __future__ import annotations

import json

import pytest
from handmade import conv_stack, stopped

from assay.document.document import Document
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


def test_the_directory_can_be_chosen_and_overwritten_with_force(cli, in_place):
    assert cli("extract", "m", "--dir", "a/b", document=conv_stack()).code == 0
    refused = cli("extract", "m", "--dir", "a/b", document=conv_stack())
    assert (refused.code, refused.received) == (2, {})
    assert refused.err.startswith("assay: error: a/b/unique_modules.json already exists: ")
    assert cli("extract", "m", "--dir", "a/b", "--force", document=conv_stack()).code == 0
    assert names(in_place / "a" / "b") == NAMES


def test_a_partial_result_is_written_beside_the_complete_one(cli, in_place):
    cli("extract", "m", "--dir", "out", document=conv_stack())
    whole = {name: (in_place / "out" / name).read_bytes() for name in NAMES}
    result = cli("extract", "m", "--dir", "out", "--force", document=stopped())
    assert result.code == 4
    assert result.out.splitlines() == ["out/unique_modules.partial.json", "out/pytorch_ops.partial.json"]
    assert "6 ops (partial), 4 unique" in result.err
    assert {name: (in_place / "out" / name).read_bytes() for name in NAMES} == whole
    ops = json.loads((in_place / "out" / "pytorch_ops.partial.json").read_text())
    assert (ops["partial"], ops["failure"]["module"]) == (True, "3")
    assert ops["metadata"]["source_modules_json"] == "unique_modules.partial.json"


def test_a_complete_result_removes_a_partial_one(cli, in_place):
    assert cli("extract", "m", "--dir", "out", document=stopped()).code == 4
    assert cli("extract", "m", "--dir", "out", document=conv_stack()).code == 0
    assert names(in_place / "out") == NAMES
    assert "partial" not in json.loads((in_place / "out" / "unique_modules.json").read_text())


def test_a_document_without_a_pass_has_nothing_to_extract(cli, in_place):
    result = cli("extract", "m", document=Document())
    assert (result.code, names(in_place)) == (3, [])
    assert "has no recorded pass" in result.err


def test_the_files_match_the_output_of_modules_and_ops(cli, in_place):
    cli("extract", "m", "--dir", "out", document=conv_stack())
    for command, name in (("modules", "unique_modules.json"), ("ops", "pytorch_ops.json")):
        printed = cli(command, "m", "--format", "json", document=conv_stack()).out
        assert (in_place / "out" / name).read_text() == printed


def test_an_incomplete_document_is_written_with_exit_code_4(cli, in_place):
    result = cli("extract", "m", document=stopped())
    assert result.code == 4
    assert names(in_place / "Sequential") == ["pytorch_ops.partial.json", "unique_modules.partial.json"]
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
