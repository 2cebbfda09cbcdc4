"""The engine, the registry of rules, and folded names."""

from __future__ import annotations

import msgspec
import pytest
from handmade import conv_stack, stopped
from hypothesis import given
from hypothesis import strategies as st

from assay.document.document import Document
from assay.document.findings import SEVERITIES, Finding
from assay.document.provenance import Counted, Figure
from assay.errors import UsageError
from assay.findings import catalogue
from assay.findings.catalogue import register, rules, selected_rules
from assay.findings.engine import DEFECT, apply, check, check_all, findings_at_least
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import WHOLE_PASS
from assay.findings.rule import Rule, RuleMatch
from assay.messages import plural


def rule(code="Z001", severity="warning", search=lambda facts: [RuleMatch("a", {})], needs=()):
    return Rule(code, severity, "a rule", "Do it.", search, needs)


def breaks(facts):
    yield RuleMatch("before the error", {})
    raise KeyError("gone")


def test_a_rule_that_fails_becomes_a_note_and_the_rest_still_run():
    checked = apply([rule("Z001", search=breaks), rule("Z002")], conv_stack())
    assert [finding.code for finding in checked.findings] == ["Z002", DEFECT]
    defect = checked.findings[1]
    assert defect.severity == "note"
    assert "Z001" in defect.title
    assert "KeyError" in defect.title


def test_a_need_that_fails_becomes_a_note_too():
    from assay.findings.rule import Need

    def missing(facts):
        raise RuntimeError("no")

    assert apply([rule(needs=(Need("x", missing),))], conv_stack()).findings[0].code == DEFECT


def test_a_skipped_rule_is_listed_with_the_reason():
    checked = apply([rule(needs=(WHOLE_PASS,))], stopped())
    assert checked.findings == []
    assert [(skipped.code, skipped.why) for skipped in checked.skipped] == [
        ("Z001", "the forward pass stopped before its end")
    ]
    assert checked.rules == 1


def test_the_most_severe_findings_come_first():
    made = [rule(f"Z00{rank}", severity) for rank, severity in enumerate(("note", "error", "advice", "warning"))]
    findings = apply(made, conv_stack()).findings
    assert [finding.severity for finding in findings] == list(SEVERITIES)
    assert [finding.severity for finding in findings_at_least(findings, "warning")] == ["error", "warning"]


def test_every_rule_accepts_every_document():
    for document in (Document(), conv_stack(), stopped()):
        checked = check_all(document)
        assert DEFECT not in {finding.code for finding in checked.findings}
        assert checked.rules == len(rules())
    assert check(Document()) == []
    assert len(check_all(Document()).skipped) == len(rules())


def test_checking_does_not_change_the_document():
    document = conv_stack()
    before = msgspec.json.encode(document)
    check(document)
    assert msgspec.json.encode(document) == before


def test_codes_select_rules():
    everything = {each.code for each in rules()}
    assert {each.code for each in selected_rules(["W1"])} == {code for code in everything if code.startswith("W1")}
    assert {each.code for each in selected_rules(None, ["w"])} == {code for code in everything if code[0] != "W"}
    assert [each.code for each in selected_rules(["S101", "S102"], ["S101"])] == ["S102"]


@pytest.mark.parametrize("code", ["Q1", "", "S1011"])
def test_an_unknown_code_is_an_error(code):
    with pytest.raises(UsageError, match="unknown rule code"):
        selected_rules([code])
    with pytest.raises(UsageError, match="unknown rule code"):
        selected_rules(None, [code])


def test_a_code_can_be_registered_once(monkeypatch):
    monkeypatch.setattr(catalogue, "_RULES", dict(catalogue._RULES))
    rules()
    register(rule("Z001"))
    with pytest.raises(ValueError, match="Z001 is already used"):
        register(rule("Z001"))


@pytest.mark.parametrize(("code", "severity"), [("z001", "note"), ("Z01", "note"), ("Z001", "fatal")])
def test_codes_and_severities_are_checked(code, severity):
    with pytest.raises(ValueError):
        rule(code, severity)


def test_every_rule_has_all_its_texts():
    assert len(rules()) >= 30
    for each in rules():
        assert each.advice.endswith(".")
        assert not each.summary.endswith(".")
        assert each.search.__doc__
        assert each.needs


def test_a_finding_has_the_code_severity_and_advice_of_its_rule():
    evidence = {"bytes": Figure(3, Counted("x"))}
    made = rule(search=lambda facts: [RuleMatch("t", evidence, modules=[1], tensors=["a"])])
    assert list(made.find(conv_stack())) == [Finding("Z001", "warning", "t", "Do it.", (1,), ("a",), evidence)]


def test_names_are_folded():
    assert fold_names(f"layers.{i}.attn" for i in range(32)) == ["layers.0–31.attn"]
    assert fold_names(f"h.{i}.e.{j}" for i in range(2) for j in range(3)) == ["h.0–1.e.0–2"]
    assert fold_names(["a", "b"]) == ["a", "b"]
    assert fold_names(["a.0", "a.2"]) == ["a.0,2"]
    assert fold_names(f"a.{i}" for i in range(0, 20, 2)) == ["a.0,2,…,18 ×10"]
    assert joined_names(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert [plural(1, "bias"), plural(2, "bias"), plural(2000, "cell")] == ["1 bias", "2 biases", "2,000 cells"]


@given(st.lists(st.lists(st.sampled_from(["a", "0", "1", "17", "007", "b3"]), min_size=1, max_size=4), max_size=12))
def test_folding_keeps_every_name(parts):
    names = {".".join(each) for each in parts}
    shown = fold_names(names)
    assert len(shown) <= len(names)
    assert bool(shown) == bool(names)
    if len(names) == 1:
        assert shown == sorted(names)


def test_every_rule_is_reported_before_it_is_applied():
    seen = []
    result = check_all(Document(), on_rule=lambda done, total: seen.append((done, total)))
    assert seen == [(done, result.rules) for done in range(result.rules)]
