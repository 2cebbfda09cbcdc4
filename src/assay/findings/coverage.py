"""Whether a count of findings is complete: which rules it covers, and why some of them were not applied."""

from __future__ import annotations

from assay.document.document import Document
from assay.document.findings import SEVERITIES
from assay.findings.catalogue import rules
from assay.findings.engine import CheckResult
from assay.findings.needs import ACTIVATIONS, FLOW, MODULES, STATISTICS, WHOLE_PASS
from assay.findings.rule import Need, Rule
from assay.messages import plural

_OF_A_PASS = {need.name for need in (MODULES, WHOLE_PASS, FLOW, ACTIVATIONS)}
"""What every check of a model records; traces, profiles, training steps and caches are evidence that it may add."""


def uncovered(document: Document, checked: CheckResult, word: str) -> str:
    """Why findings of a code or severity may have been missed; empty if the rules for them were applied.

    A severity is also covered if rules were skipped for data that not every check has, such as a trace.
    """
    if word not in SEVERITIES:
        return next((why for rule in rules() if rule.code == word if (why := _unapplied(checked, rule))), "")
    expected = _expected(document)
    needed = [rule for rule in rules() if rule.severity == word and _names(rule.needs) <= expected]
    reasons = [why for rule in needed if (why := _unapplied(checked, rule))]
    more = f", and {plural(len(reasons) - 1, 'more rule')} not applied" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}" if reasons else ""


def _expected(document: Document) -> set[str]:
    """The names of the data that a check of this model can have: traces have no weights, checkpoints no pass."""
    if document.traces and not document.modules:
        return set()
    weights = {STATISTICS.name}
    return weights | _OF_A_PASS if document.model_class or document.recorded else weights


def _names(needs: tuple[Need, ...]) -> set[str]:
    return {need.name for need in needs}


def _unapplied(checked: CheckResult, rule: Rule) -> str:
    """Why a rule was not applied; empty if it was."""
    if rule.code not in checked.codes:
        return f"{rule.code} was not selected"
    if rule.code in checked.failed:
        return f"{rule.code} failed"
    why = next((skipped.why for skipped in checked.skipped if skipped.code == rule.code), "")
    return f"{rule.code} was skipped: {why}" if why else ""
