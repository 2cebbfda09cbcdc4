"""Running rules over a document. A rule that fails is a finding of its own and stops no other."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from assay.document.document import Document
from assay.document.findings import SEVERITIES, Finding
from assay.findings.catalogue import chosen
from assay.findings.facts import ModelFacts
from assay.findings.rule import Rule
from assay.messages import error_line

DEFECT = "X001"
"""The code of a rule that failed; no rule has it."""

_ORDER = {severity: place for place, severity in enumerate(SEVERITIES)}


class Skipped(Struct, frozen=True):
    """A rule that could not be applied."""

    code: str
    summary: str
    why: str


class CheckResult(Struct, frozen=True):
    """What the rules said."""

    findings: list[Finding]
    """Worst first, then by code."""
    skipped: list[Skipped]
    """Rules the document does not hold the evidence for."""
    rules: int
    """How many were asked, those that were skipped included."""


def check(
    document: Document, *, select: Iterable[str] | None = None, ignore: Iterable[str] | None = None
) -> list[Finding]:
    """What a person should know or do about `document`, worst first; codes or their beginnings choose rules."""
    return check_all(document, select=select, ignore=ignore).findings


def check_all(
    document: Document, *, select: Iterable[str] | None = None, ignore: Iterable[str] | None = None
) -> CheckResult:
    """The findings, and the rules that could not be applied."""
    return apply(chosen(select, ignore), document)


def apply(rules: Iterable[Rule], document: Document) -> CheckResult:
    """What these rules say."""
    facts = ModelFacts(document)
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    asked = list(rules)
    for rule in asked:
        try:
            why = rule.missing(facts)
            findings += [] if why else list(rule.find(facts))
        except Exception as error:  # noqa: BLE001  whatever one rule does, the others are to be heard
            findings.append(_defect(rule, error))
            continue
        if why:
            skipped.append(Skipped(rule.code, rule.summary, why))
    return CheckResult(sorted(findings, key=_place), skipped, len(asked))


def at_least(findings: Iterable[Finding], severity: str) -> list[Finding]:
    """Those as bad as `severity` or worse."""
    return [finding for finding in findings if _ORDER[finding.severity] <= _ORDER[severity]]


def _place(finding: Finding) -> tuple[int, str]:
    return _ORDER[finding.severity], finding.code


def _defect(rule: Rule, error: Exception) -> Finding:
    return Finding(
        code=DEFECT,
        severity="note",
        title=f"rule {rule.code} could not be applied: {error_line(error)}",
        advice="This is a defect of the rule, not of the model: the other findings stand; please report it.",
    )
