"""Findings for the page: evidence, gain, and what happened when the advice was tried."""

from __future__ import annotations

from assay import units
from assay.document import tree
from assay.document.document import Document
from assay.document.findings import Finding, Gain
from assay.document.provenance import Figure
from assay.document.trials import FASTER, SLOWER, TrialResult
from assay.findings.verified import best_trial
from assay.views.gains import saving
from assay.views.html.columns import provenance, round_number
from assay.views.html.page import EvidenceItem, FindingItem, FindingsBlock, PageView, TrialItem, TrialRow
from assay.views.html.subject import Subject
from assay.views.tables import printable
from assay.views.text.brief import confidence
from assay.views.text.figures import Show
from assay.views.text.findings import evidence_texts, summary_line
from assay.views.text.trials import outputs_text, ratio_text, speedup_text

_LISTED = 200
"""Modules and tensors that a finding lists; the others are counted."""


def findings_view(subject: Subject) -> PageView:
    """All findings, most severe first, and which rules were skipped."""
    checked = subject.checked
    items = [finding_item(subject.document, one) for one in checked.findings]
    block = FindingsBlock(findings=items, summary=summary_line(checked, verbose=True))
    return PageView("findings", "Findings", [block], badge=str(len(items)) if items else "")


def finding_item(document: Document, finding: Finding) -> FindingItem:
    """A finding with the trials that followed its advice."""
    gain = finding.gain
    share = gain.share.value if gain is not None else None
    return FindingItem(
        code=finding.code,
        severity=finding.severity,
        title=printable(finding.title),
        advice=printable(finding.advice),
        gain=saving(gain) if share is not None else "",
        gain_share=None if share is None else round_number(share),
        confidence=_confidence(document, finding) if share is not None or finding.verified else "",
        proven=_is_proven(document, finding),
        verified=finding.verified,
        modules=[printable(tree.path_text(document.modules[index].path)) for index in finding.modules[:_LISTED]],
        more_modules=len(finding.modules[_LISTED:]),
        tensors=[printable(name) for name in finding.tensors[:_LISTED]],
        more_tensors=len(finding.tensors[_LISTED:]),
        evidence=[
            EvidenceItem(name, value, *provenance(finding.evidence[key].how))
            for key, name, value in evidence_texts(finding.evidence)
        ]
        + _unknown_gain(gain),
        trials=[_trial(one) for one in document.trials if finding.code in one.codes],
    )


def _confidence(document: Document, finding: Finding) -> str:
    """`1.43× measured` or another verdict if the advice was tried, else how its gain is known."""
    best = best_trial(finding, document.trials) if finding.verified else None
    if best is None:
        return confidence(finding)
    is_ratio = best.verdict in (FASTER, SLOWER) and best.speedup.value is not None
    return f"{ratio_text(best.speedup.value or 0.0)}× measured" if is_ratio else best.verdict


def _is_proven(document: Document, finding: Finding) -> bool:
    best = best_trial(finding, document.trials) if finding.verified else None
    return best is not None and best.verdict == FASTER


def _unknown_gain(gain: Gain | None) -> list[EvidenceItem]:
    """Why it is not known what the advice saves; nothing if it is known."""
    if gain is None or gain.share.value is not None:
        return []
    return [EvidenceItem(f"gain in {gain.of}", units.UNKNOWN, *provenance(gain.amount.how))]


def _trial(trial: TrialResult) -> TrialItem:
    pairs = (
        ("time", trial.before, trial.after, units.seconds),
        ("peak memory", trial.memory_before, trial.memory_after, units.size),
        ("energy", trial.energy_before, trial.energy_after, units.joules),
    )
    return TrialItem(
        name=trial.name,
        verdict=trial.verdict,
        detail=printable(trial.detail),
        speedup=speedup_text(trial.speedup) or "",
        rows=[_row(*pair) for pair in pairs if pair[1].value is not None or pair[2].value is not None],
        outputs=outputs_text(trial.outputs) or "",
    )


def _row(what: str, before: Figure, after: Figure, show: Show) -> TrialRow:
    return TrialRow(what, show(before.value), show(after.value), before.value, after.value)
