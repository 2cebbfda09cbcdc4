"""The page of a rule as text, wrapped to at most 80 columns, and as Markdown."""

from __future__ import annotations

import textwrap

from assay.findings.page import CODE_BLOCK, RulePage
from assay.findings.rule import Rule
from assay.views.text.facts import facts_table, notes_table
from assay.views.text.findings import rules_table, severity_name
from assay.views.text.report import Parts, Report

WIDTH = 80
_CODE_INDENT = "    "


def rule_report(rule: Rule, page: RulePage, width: int | None = None) -> Report:
    """The page of a rule with the commands that check and try it, for a terminal of `width` columns."""
    limit = min(width or WIDTH, WIDTH)
    facts = facts_table((f"  {name}", text) for name, text in _facts(rule, page).items())
    parts: Parts = [*textwrap.wrap(_title(rule), limit), facts]
    for heading, content in _sections(rule, page).items():
        parts += [heading, notes_table(_lines(content, limit))]
    return Report(parts, rules_table([rule]))


def rule_markdown(rule: Rule, page: RulePage) -> str:
    """The page of a rule as Markdown."""
    facts = "".join(f"- {name}: {text}\n" for name, text in _facts(rule, page).items())
    sections = "".join(f"\n## {heading}\n\n{content}\n" for heading, content in _sections(rule, page).items())
    return f"# {_title(rule)}\n\n{facts}{sections}"


def _title(rule: Rule) -> str:
    return f"{rule.code} {severity_name(rule.severity)}: {rule.summary}"


def _facts(rule: Rule, page: RulePage) -> dict[str, str]:
    """What the rule needs, and the commands that check it and try its advice."""
    flags = "".join(f" --{option.replace('_', '-')}" for option in page.options)
    facts = {
        "needs": ", ".join(need.name for need in rule.needs),
        "check": f"assay check {page.subject} --select {rule.code}{flags}",
        "try": f"assay check {page.subject} --try {rule.code}" if page.changes else "",
    }
    return {name: text for name, text in facts.items() if text}


def _sections(rule: Rule, page: RulePage) -> dict[str, str]:
    """The rule's advice and the sections of its page."""
    return {"Advice": rule.advice, **page.sections}


def _lines(content: str, width: int) -> list[str]:
    """The lines of a section: paragraphs wrapped to `width`, code indented and unchanged."""
    blocks: list[list[str]] = []
    for number, text in enumerate(CODE_BLOCK.split(content)):
        if number % 2:
            blocks.append(textwrap.indent(text.rstrip(), _CODE_INDENT).splitlines())
        else:
            paragraphs = filter(None, text.strip().split("\n\n"))
            blocks += [textwrap.wrap(each, width, break_on_hyphens=False) for each in paragraphs]
    return [line for block in blocks for line in ("", *block)][1:]
