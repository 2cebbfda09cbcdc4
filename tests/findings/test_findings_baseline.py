"""Baselines: what makes a finding the same, new or gone, and the files they are kept in."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from assay.document.document import Document, Origin
from assay.document.findings import Finding
from assay.document.provenance import Counted, Figure
from assay.document.rows import Module
from assay.errors import ReadError, UsageError, VersionError
from assay.findings.baseline import accepted, compare, module_paths
from assay.findings.baseline_files import accepted_in, write_baseline
from assay.views.json.schema import schema

NAMES = [f"layers.{index}" for index in range(6)]


def document(names: list[str] = NAMES) -> Document:
    modules = [Module("", "Net", "m.Net", None), *(Module(name, "Linear", "m.Linear", 0) for name in names)]
    return Document(origin=Origin("file", "my_model.py:load", "load"), modules=modules)


def finding(*modules: int, code: str = "C401", severity: str = "advice", **values: object) -> Finding:
    count = len(modules)
    evidence = {"layers": Figure(count, Counted("modules"))}
    return Finding(code, severity, f"{count} layers", "Do it.", modules, evidence=evidence, **values)


def result(old: list[Finding], new: list[Finding], applied: tuple[str, ...] = ("C401", "W101")):
    doc = document()
    paths = module_paths(doc)
    return compare([accepted(each, paths) for each in old], doc, new, applied)


def test_numbers_in_titles_and_evidence_do_not_matter():
    changed = msgspec.structs.replace(
        finding(1, 2), title="2 layers, 37 % of the bytes", evidence={"share": Figure(0.37, Counted("x"))}
    )
    compared = result([finding(1, 2)], [changed])
    assert (compared.new, compared.known, compared.gone) == ([], 1, [])


def test_added_modules_are_new_and_the_rest_is_known():
    (new,) = result([finding(1, 2)], [finding(1, 2, 5)]).new
    assert new.modules == (5,)
    assert new.title == "3 layers (new in 1 of 3 modules)"


def test_another_code_is_new_and_the_old_one_gone():
    compared = result([finding(1)], [finding(1, code="W101")])
    assert [each.code for each in compared.new] == ["W101"]
    assert [each.code for each in compared.gone] == ["C401"]


def test_a_rule_that_was_not_applied_leaves_nothing_gone():
    assert result([finding(1)], [], applied=("W101",)).gone == []
    assert len(result([finding(1)], [], applied=("C401",)).gone) == 1


def test_a_finding_that_became_a_warning_is_new_but_not_one_that_became_a_suggestion():
    assert len(result([finding(1, severity="note")], [finding(1, severity="warning")]).new) == 1
    assert result([finding(1, severity="note")], [finding(1, severity="advice")]).new == []
    assert result([finding(1, severity="error")], [finding(1, severity="warning")]).new == []


def test_findings_about_the_whole_model_have_an_identity_too():
    assert result([finding()], [finding()]).new == []
    assert len(result([], [finding()]).new) == 1


@given(st.sets(st.integers(1, 6)), st.sets(st.integers(1, 6), min_size=1))
def test_exactly_the_difference_is_new(old, now):
    before = [finding(*sorted(old))] if old else []
    new = result(before, [finding(*sorted(now))]).new
    assert {index for each in new for index in each.modules} == now - old


def test_a_file_keeps_the_findings_of_other_models(tmp_path):
    path, first = tmp_path / "b.json", document()
    other = msgspec.structs.replace(first, origin=Origin("package", "nets:other", "other"))
    write_baseline(path, first, [finding(1)], overwrite=False)
    write_baseline(path, other, [finding(2, code="W101")], overwrite=False)
    assert [each.code for each in accepted_in(path, first)] == ["C401"]
    assert [each.modules for each in accepted_in(path, other)] == [("layers.1",)]
    with pytest.raises(UsageError, match="already exists"):
        write_baseline(path, first, [], overwrite=False)
    write_baseline(path, first, [], overwrite=True)
    assert accepted_in(path, first) == []
    assert len(accepted_in(path, other)) == 1


def test_a_file_matches_its_schema(tmp_path):
    path = tmp_path / "b.json"
    write_baseline(path, document(), [finding(1, 2), finding(code="W101", tensors=("a.weight",))], overwrite=False)
    Draft202012Validator(json.loads(schema("baseline"))).validate(json.loads(path.read_text()))


def test_a_model_is_found_from_another_directory(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "my_model.py").write_text("")
    monkeypatch.chdir(tmp_path)
    write_baseline(Path("b.json"), document(), [finding(1)], overwrite=False)
    monkeypatch.chdir(tmp_path / "sub")
    there = msgspec.structs.replace(document(), origin=Origin("file", "../my_model.py:load", "load"))
    assert len(accepted_in(Path("../b.json"), there)) == 1
    assert list(json.loads((tmp_path / "b.json").read_text())["models"]) == ["my_model.py:load"]


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b'{"assay_baseline": 99, "models": {}}', VersionError, "newer"),
        (b'{"assay_baseline": 1, "models": {"m": [{"code": "W101", "sev', ReadError, "damaged"),
        (b'{"assay_baseline": 1, "models": {"m": [{"code": "W101", "severity": "fatal"}]}}', ReadError, "damaged"),
        (b'{"findings": [{"code": "W1", "severity": "note", "title": "", "advice": "", "modules": [3]}]}', ReadError,
         "damaged"),
        (b'{"findings": [], "baseline": {"known": 3, "gone": []}}', ReadError, "another baseline"),
        (b"[1, 2]", ReadError, "not a baseline"),
        (b"\xff\xfe", ReadError, "not a baseline"),
    ],
)  # fmt: skip
def test_damaged_newer_and_reduced_files_are_refused(tmp_path, content, error, words):
    path = tmp_path / "b.json"
    path.write_bytes(content)
    with pytest.raises(error, match=words):
        accepted_in(path, document())
