"""`assay rule`: the page of one rule, or the list of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from assay.cli.options import OptionGroups, Output, result_options
from assay.cli.output import emit, refuse_overwrite, text_style
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.findings.rule import Rule


@click.command(cls=OptionGroups)
@click.argument("code", metavar="[CODE]", required=False)
@result_options
def rule(code: str | None, output: Output) -> None:
    """Explain the rule CODE of `assay check`: what it looks for, why, an example with its fix, when to ignore it.

    Without CODE, or with the start of one (C4), list the rules.
    """
    from assay.views.json.files import encode
    from assay.views.json.findings import rules_file
    from assay.views.text.findings import rules_table

    refuse_overwrite(output)
    rules = _rules(code)
    if code is not None and [each.code for each in rules] == [code.strip().upper()]:
        _print_page(rules[0], output)
    else:
        emit(output, lambda: rules_table(rules), {"json": lambda: encode(rules_file(rules))})


def _rules(code: str | None) -> list[Rule]:
    """The rules whose code starts with `code`, all if None; a UsageError with similar codes if there are none."""
    from assay.findings.catalogue import rules
    from assay.messages import name_suggestion, one_line

    prefix = (code or "").strip().upper()
    matching = [each for each in rules() if each.code.startswith(prefix)]
    if not matching:
        similar = name_suggestion(prefix, (each.code for each in rules()), listing=False)
        raise UsageError(f"unknown rule code {one_line(code)!r}: {similar} (`assay rule` lists all rules)")
    return matching


def _print_page(rule: Rule, output: Output) -> None:
    from assay.findings.page import rule_page
    from assay.views.json.files import encode
    from assay.views.json.rule import rule_file
    from assay.views.text.rule import rule_markdown, rule_report

    page = rule_page(rule.code)
    encoders = {
        "json": lambda: encode(rule_file(rule, page)),
        "md": lambda: rule_markdown(rule, page).encode(),
    }
    emit(output, lambda: rule_report(rule, page, text_style(output).width), encoders)
