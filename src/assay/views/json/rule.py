"""The JSON of `assay rule`: one rule with its page."""

from __future__ import annotations

from msgspec import Struct

from assay.findings.page import RulePage
from assay.findings.rule import Rule
from assay.views.json.findings import RuleEntry, rules_file


class RuleFile(Struct, frozen=True):
    """One rule and its page."""

    rule: RuleEntry
    page: RulePage


def rule_file(rule: Rule, page: RulePage) -> RuleFile:
    """The JSON of a rule and its page."""
    return RuleFile(rules_file([rule]).rules[0], page)
