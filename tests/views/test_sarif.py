"""SARIF: valid by the schema of OASIS (the part that is written here), locations, levels and fingerprints."""

from __future__ import annotations

import json

import msgspec
import pytest
from handmade import conv_stack
from jsonschema import Draft7Validator

from assay.analysis.cost.totals import with_cost
from assay.document.document import Document
from assay.document.findings import Finding, Gain
from assay.document.provenance import Counted, Figure, Unknown
from assay.findings.catalogue import rules
from assay.findings.engine import check_all
from assay.views.json.sarif import fingerprint, sarif

TEXT = {"type": "object", "required": ["text"], "additionalProperties": False,
        "properties": {"text": {"type": "string"}, "markdown": {"type": "string"}}}  # fmt: skip
BAG = {"type": "object"}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def closed(required: list[str], **properties: object) -> dict[str, object]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def unique(items: object) -> dict[str, object]:
    return {"type": "array", "uniqueItems": True, "items": items}


RULE = closed(
    ["id"], id={"type": "string"}, name={"type": "string"}, shortDescription=TEXT, fullDescription=TEXT, help=TEXT,
    helpUri={"type": "string", "format": "uri"}, properties=BAG, defaultConfiguration=closed([], level=LEVEL),
)  # fmt: skip
LOCATION = closed(
    [],
    physicalLocation=closed(
        [],
        artifactLocation=closed([], uri={"type": "string", "pattern": r"^[^\s\\]+$"}, uriBaseId={"type": "string"}),
        region=closed([], startLine={"type": "integer", "minimum": 1}),
    ),
    logicalLocations=unique(
        closed([], name={"type": "string"}, fullyQualifiedName={"type": "string"}, kind={"type": "string"})
    ),
)
RESULT = closed(
    ["message", "ruleId", "ruleIndex", "level", "locations", "partialFingerprints", "properties"],
    ruleId={"type": "string"}, ruleIndex={"type": "integer", "minimum": 0}, level=LEVEL, message=TEXT,
    locations={"type": "array", "items": LOCATION}, properties=BAG,
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
)  # fmt: skip
DRIVER = closed(
    ["name", "version", "rules"],
    name={"type": "string"}, version={"type": "string", "pattern": r"[0-9]+(\.[0-9]+){2}"},
    semanticVersion={"type": "string"}, informationUri={"type": "string"}, rules=unique(RULE),
)  # fmt: skip
RUN = closed(
    ["tool", "results"], tool=closed(["driver"], driver=DRIVER), results={"type": "array", "items": RESULT},
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)  # fmt: skip
LOG = closed(
    ["version", "$schema", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}, "version": {"enum": ["2.1.0"]},
       "runs": {"type": "array", "items": RUN}},
)  # fmt: skip


def log(document: Document, findings: list[Finding], path: str | None = None, line: int | None = None) -> dict:
    content = json.loads(sarif(document, findings, rules(), path, line))
    Draft7Validator(LOG).validate(content)
    return content["runs"][0]


def one(**fields: object) -> Finding:
    return Finding(**{"code": "W101", "severity": "error", "title": "3 NaN values", "advice": "Fix.", **fields})


def test_results_refer_to_their_rules():
    document = with_cost(conv_stack())
    findings = [*check_all(document).findings, one(), one(code="C101"), one(tensors=("a", "a")), one(code="X001")]
    run = log(document, findings, "my_model.py", 12)
    listed = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert listed == sorted({finding.code for finding in findings})
    assert [listed[each["ruleIndex"]] for each in run["results"]] == [finding.code for finding in findings]
    assert [each["ruleId"] for each in run["results"]] == [finding.code for finding in findings]


@pytest.mark.parametrize(
    ("severity", "level"), [("error", "error"), ("warning", "warning"), ("advice", "note"), ("note", "note")]
)
def test_levels(severity, level):
    (result,) = log(conv_stack(), [one(severity=severity)])["results"]
    assert result["level"] == level
    assert result["properties"]["severity"] == severity


def test_a_location_has_the_file_the_line_and_the_modules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a dir" / "nét.py"
    (result,) = log(conv_stack(), [one(modules=(0, 1), tensors=("0.weight",))], str(path), 7)["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20dir/n%C3%A9t.py"},
        "region": {"startLine": 7},
    }
    assert [each["fullyQualifiedName"] for each in location["logicalLocations"]] == ["(root)", "0", "0.weight"]


def test_a_file_outside_the_directory_has_an_absolute_uri(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    (result,) = log(conv_stack(), [one()], str(tmp_path / "x.py"))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (tmp_path / "x.py").as_uri()


def test_names_from_models_have_no_control_characters():
    hostile = "a\x1b[31m\nb\u202e"
    data = sarif(
        conv_stack(), [one(title=hostile, tensors=(hostile,), evidence={hostile: Figure(1, Counted("x"))})], rules()
    )
    text = json.dumps(json.loads(data), ensure_ascii=False)
    assert "\x1b" not in text
    assert "\\u001b" not in text
    assert "\u202e" not in text


def test_a_gain_and_a_trial_are_properties():
    gain = Gain("time", Figure(0.5, Counted("x")), Figure(None, Unknown("not timed")))
    (result,) = log(conv_stack(), [one(gain=gain, verified="1.43× [1.38–1.47]")])["results"]
    assert result["properties"]["gain"] == {
        "of": "time",
        "amount": {"value": 0.5, "how": "counted"},
        "share": {"value": None, "how": "unknown"},
    }
    assert result["properties"]["verified"] == "1.43× [1.38–1.47]"


def test_a_fingerprint_ignores_numbers_but_not_names():
    document = conv_stack()
    base = fingerprint(document, one(tensors=("layers.0.weight",)))
    assert fingerprint(document, one(title="5 NaN values", tensors=("layers.7.weight", "layers.0.weight"))) == base
    assert fingerprint(document, one(tensors=("layers.0.bias",))) != base
    assert fingerprint(document, one(code="W102", tensors=("layers.0.weight",))) != base
    other = msgspec.structs.replace(document.origin, name="another")
    assert fingerprint(msgspec.structs.replace(document, origin=other), one(tensors=("layers.0.weight",))) != base


def test_a_finding_without_a_place_has_no_location():
    (result,) = log(Document(), [one(code="X001")])["results"]
    assert result["locations"] == []
