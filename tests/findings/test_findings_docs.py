"""The table of rules in docs/findings.md matches the registry."""

from __future__ import annotations

from pathlib import Path

from assay.findings.catalogue import rules
from assay.views.tables import as_markdown
from assay.views.text.findings import rules_table

PAGE = Path(__file__).parents[2] / "docs" / "findings.md"


def test_the_page_ends_with_the_table_of_rules():
    table = as_markdown(rules_table(rules()))
    assert PAGE.read_text(encoding="utf-8").endswith(table), "regenerate it: assay check --rules --format md"
