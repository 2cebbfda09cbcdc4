"""Applying rules to a document. A rule that raises becomes a finding itself; the remaining rules still run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.devices import Device
from assay.display import Displayed
from assay.document.document import Document
from assay.document.findings import BYTES, MEMORY, QUANTITIES, SEVERITIES, TIME, Finding
from assay.findings.catalogue import selected_rules
from assay.findings.facts import ModelFacts
from assay.findings.rule import Rule
from assay.messages import error_line

DEFECT = "X001"
"""The code of the finding that reports a failed rule; no rule has this code."""

OnRule = Callable[[int, int], None]
"""Called before each rule with the number of rules applied so far and their total."""

_ORDER = {severity: rank for rank, severity in enumerate(SEVERITIES)}
MIN_TIME_SHARE = 0.02
"""A suggestion that saves at most this share of the time of a pass becomes a note."""
MIN_BYTES = 1024
"""A suggestion that saves fewer bytes becomes a note."""


class Skipped(Struct, frozen=True):
    """A rule that was not applied because the document lacks the data it needs."""

    code: str
    """The rule's code: `W101`."""
    summary: str
    """What the rule looks for."""
    why: str
    """Which data is missing."""


class CheckResult(Displayed, Struct, frozen=True):
    """The findings of a set of rules, and the rules that were skipped."""

    findings: list[Finding]
    """Most severe first, then by what they gain."""
    skipped: list[Skipped]
    """Rules that need data the document does not have."""
    codes: tuple[str, ...]
    """The rules selected, including skipped ones."""
    failed: tuple[str, ...] = ()
    """Rules that raised; a finding reports each."""

    @property
    def rules(self) -> int:
        """The number of rules selected, including skipped ones."""
        return len(self.codes)


def check(
    document: Document, *, select: Iterable[str] | None = None, ignore: Iterable[str] | None = None
) -> list[Finding]:
    """The findings about `document`, most severe first; `select` and `ignore` take rule codes or their prefixes."""
    return check_all(document, select=select, ignore=ignore).findings


def check_all(
    document: Document,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    device: Device | None = None,
    on_rule: OnRule | None = None,
) -> CheckResult:
    """The findings about `document`, and the rules that were skipped; `device` as in `ModelFacts`."""
    return apply(selected_rules(select, ignore), document, device, on_rule)


def apply(
    rules: Iterable[Rule], document: Document, device: Device | None = None, on_rule: OnRule | None = None
) -> CheckResult:
    """Apply `rules` to `document`; `device` as in `ModelFacts`."""
    facts = ModelFacts(document, device)
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    failed: list[str] = []
    selected = list(rules)
    for number, rule in enumerate(selected):
        if on_rule is not None:
            on_rule(number, len(selected))
        try:
            why = rule.missing(facts)
            findings += [] if why else [weighed(finding) for finding in rule.find(facts)]
        except Exception as error:  # noqa: BLE001  one broken rule must not stop the rest
            findings.append(_defect(rule, error))
            failed.append(rule.code)
            continue
        if why:
            skipped.append(Skipped(rule.code, rule.summary, why))
    return CheckResult(ranked(findings), skipped, tuple(rule.code for rule in selected), tuple(failed))


def findings_at_least(findings: Iterable[Finding], severity: str) -> list[Finding]:
    """The findings that are at least as severe as `severity`."""
    return [finding for finding in findings if _ORDER[finding.severity] <= _ORDER[severity]]


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, most severe first, then by gain: time before memory before bytes, the largest share first."""
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[int, bool, int, float, str]:
    gain = finding.gain
    if gain is None or gain.share.value is None:
        return _ORDER[finding.severity], True, len(QUANTITIES), 0.0, finding.code
    return _ORDER[finding.severity], False, QUANTITIES.index(gain.of), -gain.share.value, finding.code


def weighed(finding: Finding) -> Finding:
    """The finding; a suggestion that saves next to nothing becomes a note."""
    gain = finding.gain
    if finding.severity != "advice" or gain is None:
        return finding
    share, amount = gain.share.value, gain.amount.value
    tiny = gain.of == TIME and share is not None and share < MIN_TIME_SHARE
    tiny |= gain.of in (MEMORY, BYTES) and amount is not None and amount < MIN_BYTES
    return replace(finding, severity="note") if tiny else finding


def _defect(rule: Rule, error: Exception) -> Finding:
    return Finding(
        code=DEFECT,
        severity="note",
        title=f"rule {rule.code} failed: {error_line(error)}",
        advice="Report this bug: the rule is broken, not the model. All other findings are valid.",
    )
