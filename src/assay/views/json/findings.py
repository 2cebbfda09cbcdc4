"""Findings as one object."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.document import tree
from assay.document.document import Document
from assay.document.findings import Finding
from assay.findings.engine import CheckResult, Skipped
from assay.findings.rule import Rule
from assay.views.json.files import timestamp


class FindingModule(Struct, frozen=True):
    """A module that a finding names by its index."""

    index: int
    path: str


class FindingsFile(Struct, frozen=True):
    """What was found in one model."""

    source: str
    model_class: str
    timestamp: str
    findings: list[Finding]
    modules: list[FindingModule]
    """The modules that findings point at."""
    skipped: list[Skipped]
    rules: int


class RuleEntry(Struct, frozen=True):
    """One rule."""

    code: str
    severity: str
    summary: str
    advice: str
    needs: list[str]


class RulesFile(Struct, frozen=True):
    """The rules there are."""

    rules: list[RuleEntry]


def rules_file(rules: Sequence[Rule]) -> RulesFile:
    """Rules as their JSON holds them."""
    return RulesFile(
        [RuleEntry(r.code, r.severity, r.summary, r.advice, [need.name for need in r.needs]) for r in rules]
    )


def findings_file(document: Document, checked: CheckResult) -> FindingsFile:
    """The findings of `document` as their JSON holds them."""
    named = sorted({index for finding in checked.findings for index in finding.modules})
    return FindingsFile(
        source=document.origin.location,
        model_class=document.model_class,
        timestamp=timestamp(document),
        findings=checked.findings,
        modules=[FindingModule(index, tree.shown(document.modules[index].path)) for index in named],
        skipped=checked.skipped,
        rules=checked.rules,
    )
