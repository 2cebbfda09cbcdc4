"""The JSON of `assay check`: findings and rules."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.document import tree
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.trials import TrialResult
from assay.findings.baseline import AcceptedFinding, BaselineComparison
from assay.findings.budget import BudgetLine, BudgetReport
from assay.findings.engine import CheckResult, Skipped
from assay.findings.rule import Rule
from assay.views.json.files import ResultFile, partial_keys, timestamp


class FindingModule(Struct, frozen=True):
    """The index and path of a module that a finding refers to."""

    index: int
    path: str


class BaselineSummary(Struct, frozen=True):
    """A comparison with a baseline, apart from the new findings."""

    known: int
    """Number of findings in the baseline that were found again."""
    gone: list[AcceptedFinding]
    """Findings of the baseline that were not found again, although their rule was applied."""


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
    baseline: BaselineSummary | None = None
    """How the findings compare with a baseline; null without one. `findings` are then only those not in it."""
    budget: list[BudgetLine] | None = None
    """The limits of a budget, compared with the values of the model; null without a budget."""
    trials: list[TrialResult] | None = None
    """The changes that were tried; null if none were."""
    notes: tuple[str, ...] = ()
    """Why the model was not run, if it was not."""


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


def findings_file(
    document: Document,
    checked: CheckResult,
    comparison: BaselineComparison | None = None,
    budget: BudgetReport | None = None,
) -> FindingsFile:
    """The JSON of the findings of `document`, with what a comparison with a baseline and a budget added."""
    indices = sorted({index for finding in checked.findings for index in finding.modules})
    return FindingsFile(
        source=document.origin.location,
        model_class=document.model_class,
        timestamp=timestamp(document),
        findings=checked.findings,
        modules=[FindingModule(index, tree.path_text(document.modules[index].path)) for index in indices],
        skipped=checked.skipped,
        rules=checked.rules,
        baseline=BaselineSummary(comparison.known, comparison.gone) if comparison is not None else None,
        budget=budget.lines if budget is not None else None,
        trials=document.trials or None,
        notes=() if document.kinds else document.run.assumptions,
        **partial_keys(document),
    )
