"""`assay rule`: the page of a rule, lists of rules, and unknown codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from assay.findings.catalogue import rules
from assay.findings.page import SECTIONS, rule_page
from assay.views.layout import Style
from assay.views.text.report import as_text
from assay.views.text.rule import rule_report

CODES = [rule.code for rule in rules()]


def test_a_code_prints_its_page(cli):
    result = cli("rule", "C401")
    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0].startswith("C401 suggestion: attention")
    assert [line for line in lines if line in ("Advice", *SECTIONS)] == ["Advice", *SECTIONS]
    assert "  check  assay check MODEL --select C401" in lines
    assert "  try    assay check MODEL --try C401" in lines
    assert "            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5" in lines


def test_a_page_names_the_options_that_its_rule_needs(cli):
    assert "assay check MODEL --select M101 --backward" in cli("rule", "M101").out


def test_a_rule_without_automatic_changes_is_not_offered_for_trying(cli):
    assert "--try" not in cli("rule", "W101").out.split("Advice")[0]


@pytest.mark.parametrize("code", CODES)
def test_pages_fit_into_80_columns(cli, code):
    result = cli("rule", code.lower())
    assert result.code == 0
    assert result.out.startswith(code)
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    headings = [lines.index(name) for name in ("Advice", *SECTIONS)]
    assert all(lines[at - 1] == "" and lines[at - 2] and lines[at + 1] for at in headings)


def test_prose_is_wrapped_to_a_narrow_terminal():
    rule = next(each for each in rules() if each.code == "W101")
    lines = as_text(rule_report(rule, rule_page("W101"), 50), Style(50)).splitlines()
    assert max(map(len, lines)) <= 50


def test_the_example_as_printed_is_the_example_of_the_page(cli):
    printed = cli("rule", "S203").out.split("\nExample\n")[1].split("\nFix\n")[0]
    code = "\n".join(line.removeprefix("    ") for line in printed.rstrip().splitlines())
    assert code == rule_page("S203").code_in("Example").rstrip()


def test_markdown_has_a_heading_per_section(cli):
    text = cli("rule", "C401", "--format", "md").out
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings[0].startswith("# C401 suggestion: ")
    assert headings[1:] == [f"## {name}" for name in ("Advice", *SECTIONS)]
    assert text.count("```python\n") == 2


def test_json_has_the_rule_and_its_page(cli):
    found = json.loads(cli("rule", "c401", "--format", "json").out)
    assert found["rule"]["code"] == "C401"
    assert found["rule"]["severity"] == "advice"
    assert found["page"]["changes"] == ["sdpa"]
    assert list(found["page"]["sections"]) == list(SECTIONS)


def test_without_a_code_all_rules_are_listed(cli):
    for options in ([], ["--format", "json"], ["--format", "csv"]):
        assert cli("rule", *options).out == cli("check", "--rules", *options).out


def test_the_start_of_a_code_lists_its_rules(cli):
    listed = json.loads(cli("rule", "c4", "--format", "json").out)["rules"]
    assert [each["code"] for each in listed] == [code for code in CODES if code.startswith("C4")]


@pytest.mark.parametrize(("code", "near"), [("C410", "C401"), ("W1O1", "W101"), ("S2034", "S203")])
def test_an_unknown_code_suggests_near_ones(cli, code, near):
    result = cli("rule", code)
    assert result.code == 2
    assert f"unknown rule code '{code}': did you mean " in result.err
    assert near in result.err
    assert result.out == ""


def test_something_else_is_not_a_code(cli):
    result = cli("rule", "../../etc/passwd")
    assert result.code == 2
    assert "check the name (`assay rule` lists all rules)" in result.err


def test_a_page_is_written_to_a_file_once(cli, in_place):
    assert cli("rule", "C401", "-o", "page.md", "--format", "md").code == 0
    assert (in_place / "page.md").read_text(encoding="utf-8").startswith("# C401")
    assert cli("rule", "C401", "-o", "page.md").code == 2


def test_a_page_is_printed_without_torch(environment):
    program = "import sys; from assay.cli.main import run; run(['rule', 'C401']); print('torch' in sys.modules)"
    child = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert "scaled_dot_product_attention" in child.stdout
    assert child.stdout.splitlines()[-1] == "False"
