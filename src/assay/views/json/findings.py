"""The JSON of `assay check`: findings and rules."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.document import tree
from assay.document.document import Document
from assay.document.findings import Finding
from assay.findings.engine import CheckResult, Skipped
from assay.findings.rule import Rule
from assay.views.json.files import ResultFile, partial_keys, timestamp


class FindingModule(Struct, frozen=True):
    """The index and path of a module that a finding refers to."""

    index: int
    path: str


class FindingsFile(ResultFile, frozen=True):
    """The findings of one model."""

    source: str
    model_class: str
    timestamp: str
    findings: list[Finding]
    modules: list[FindingModule]
    """All modules that the findings refer to."""
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
    """The catalogue of rules."""

    rules: list[RuleEntry]


def rules_file(rules: Sequence[Rule]) -> RulesFile:
    """The JSON of `rules`."""
    return RulesFile(
        [RuleEntry(r.code, r.severity, r.summary, r.advice, [need.name for need in r.needs]) for r in rules]
    )


def findings_file(document: Document, checked: CheckResult) -> FindingsFile:
    """The JSON of the findings of `document`."""
    indices = sorted({index for finding in checked.findings for index in finding.modules})
    return FindingsFile(
        source=document.origin.location,
        model_class=document.model_class,
        timestamp=timestamp(document),
        findings=checked.findings,
        modules=[FindingModule(index, tree.path_text(document.modules[index].path)) for index in indices],
        skipped=checked.skipped,
        rules=checked.rules,
        **partial_keys(document),
    )
