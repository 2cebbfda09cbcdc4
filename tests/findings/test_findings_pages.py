"""Every rule has a page whose example triggers the rule and whose fix does not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

import assay
from assay.findings.catalogue import rules
from assay.findings.page import CODE_BLOCK, EXAMPLE, FIX, SECTIONS, VERIFIED, page_codes, parsed_page, rule_page
from assay.trials.change import changes

REGISTERED = {rule.code: rule for rule in rules()}
CODES = page_codes()
CHECKED = [code for code in CODES if not rule_page(code).unchecked]
PROSE_WORDS = range(80, 211)
CODE_WIDTH = 76
"""Characters of a line of code: with its indent it fits into 80 columns."""


@pytest.fixture(autouse=True)
def _settings_are_restored():
    """Examples may change settings of torch."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


def prose(text: str) -> str:
    """The text of a page without its code."""
    return CODE_BLOCK.sub("", text)


def loaded(code: str, path: Path) -> ModuleType:
    """The names that a page's code defines."""
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    torch.manual_seed(0)
    spec.loader.exec_module(module)
    return module


def found(code: str, heading: str, folder: Path) -> set[str]:
    """The codes that `assay check --select CODE` reports for a section's model."""
    page = rule_page(code)
    defined = loaded(page.code_in(heading), folder / f"{heading.lower()}_{code.lower()}.py")
    options = dict.fromkeys(page.options, True)
    report = assay.check(defined.model, getattr(defined, "inputs", None), select=[code], measure=False, **options)
    assert not report.skipped, report.skipped
    return {finding.code for finding in report.findings}


def test_every_rule_has_a_page_and_every_page_a_rule():
    assert set(CODES) == set(REGISTERED)


@pytest.mark.parametrize("code", CODES)
def test_a_page_has_every_section_in_order(code):
    page = rule_page(code)
    assert tuple(page.sections) == SECTIONS
    assert all(prose(text).strip() or heading in (EXAMPLE, FIX) for heading, text in page.sections.items())
    for heading in (EXAMPLE, FIX):
        lines = page.code_in(heading).splitlines()
        assert lines
        assert max(map(len, lines)) <= CODE_WIDTH


@pytest.mark.parametrize("code", CODES)
def test_a_page_is_short_and_does_not_repeat_the_advice(code):
    text = "\n".join(prose(section) for section in rule_page(code).sections.values())
    assert len(text.split()) in PROSE_WORDS
    assert "http" not in text
    assert REGISTERED[code].advice not in " ".join(text.split())


@pytest.mark.parametrize("code", CODES)
def test_a_page_names_the_changes_that_try_its_advice(code):
    page = rule_page(code)
    assert [name for name in page.changes if f"`{name}`" not in page.sections[VERIFIED]] == []
    assert set(page.changes) == {change.name for change in changes() if code in change.codes}


@pytest.mark.parametrize("code", CHECKED)
def test_the_example_triggers_the_rule(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert found(code, EXAMPLE, tmp_path) == {code}


@pytest.mark.parametrize("code", CHECKED)
def test_the_fix_does_not(code, tmp_path, monkeypatch):
    if rule_page(code).fix_unchecked:
        pytest.skip(rule_page(code).fix_unchecked)
    monkeypatch.chdir(tmp_path)
    assert found(code, FIX, tmp_path) == set()


@pytest.mark.parametrize("heading", [EXAMPLE, FIX])
@pytest.mark.parametrize("code", sorted(set(CODES) - set(CHECKED)))
def test_code_that_cannot_trigger_a_rule_here_still_runs(code, heading, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defined = loaded(rule_page(code).code_in(heading), tmp_path / "unchecked.py")
    inputs = getattr(defined, "inputs", ())
    with torch.no_grad():
        defined.model(*inputs if isinstance(inputs, tuple) else (inputs,))


def test_settings_of_a_page_are_read():
    text = (
        "---\nchanges: a, b\noptions: backward\nunchecked: no GPU: none\n---\n## Example\n\n```python\nx = 1\n```\n"
    )
    page = parsed_page("Z999", text)
    assert (page.changes, page.options, page.unchecked) == (("a", "b"), ("backward",), "no GPU: none")
    assert page.code_in(EXAMPLE) == "x = 1\n"


def test_a_rule_without_a_page_has_no_sections():
    assert rule_page("Z999").sections == {}
