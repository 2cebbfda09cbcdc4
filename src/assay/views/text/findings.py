"""Findings as text (one block each, most severe first, with modules, evidence and advice) and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay import units
from assay.document.document import Document
from assay.document.findings import SEVERITIES, Finding
from assay.document.provenance import Figure, Measured, Modelled
from assay.findings.engine import CheckResult
from assay.findings.naming import fold_names, joined_names, module_names
from assay.findings.rule import Rule
from assay.messages import plural
from assay.views.choosing import Choice, choose
from assay.views.gains import gain_text, short_gain
from assay.views.partial import marked_total
from assay.views.tables import Column, Table, percent
from assay.views.text.facts import facts_table, notes_table
from assay.views.text.finding_plans import plan_parts
from assay.views.text.partial_report import marked
from assay.views.text.report import Parts, Report
from assay.views.text.trials import trial_parts

_SHOWN = 8
"""Names listed in the block of a finding."""
_ALL = 1_000_000
"""More names than a finding has: CSV and JSON list all of them."""

NAMING: tuple[Column[Finding], ...] = (
    Column("code", lambda finding: finding.code),
    Column("severity", lambda finding: finding.severity, show=lambda severity: severity_name(severity)),
    Column("title", lambda finding: finding.title, shrinks=True),
)
"""The columns that identify a finding."""

_RULES: tuple[Column[Rule], ...] = (
    Column("code", lambda rule: rule.code),
    Column("severity", lambda rule: rule.severity),
    Column("looks for", lambda rule: rule.summary, shrinks=True, keeps=40),
    Column("advice", lambda rule: rule.advice, shrinks=True, drops=True),
    Column("needs", lambda rule: ", ".join(need.name for need in rule.needs) or None, shrinks=True, drops=True),
)

_FORMATS: tuple[tuple[Callable[[str], bool], Callable[[Any], str]], ...] = (
    (lambda name: "bytes" in name.split("_") and not name.startswith(("share", "flops_per")), units.size),
    (lambda name: name.split("_")[0] == "share" or name.endswith("_share"), percent),
    (lambda name: name.endswith("_s"), units.seconds),
    (lambda name: name.endswith("_db"), lambda value: f"{value:.1f} dB"),
    (lambda name: "flops" in name and not name.startswith("flops_per"), lambda value: units.count(value, "FLOP")),
    (lambda name: True, lambda value: units.exact(value) if isinstance(value, int) else f"{value:.4g}"),
)
"""Pairs of a test of an evidence name and the formatter of its value; the first match is used."""

_LABELS = {
    "active_dropouts": "active Dropout calls",
    "active_parameters": "active parameters per token",
    "attentions": "attention calls",
    "batch_norms": "BatchNorm layers",
    "bytes_between_products": "bytes between the matmuls",
    "bytes_of_weights": "weights",
    "bytes_read_again": "bytes read repeatedly",
    "experts_a_layer": "experts per layer",
    "flops": "FLOPs",
    "flops_per_byte": "FLOPs per byte",
    "foldable": "foldable layers",
    "inf": "infinite values",
    "matrix_flops_saved": "matrix FLOPs saved",
    "nan": "NaN values",
    "operations": "ops",
    "products_saved": "matmuls saved",
    "share_of_flops": "share of FLOPs",
    "small_operations": "small ops",
    "start_time_s": "launch time",
    "tokens_as_large_as_parameters": "tokens that need as much memory as the parameters",
    "typical": "median",
    "worst_sqnr_db": "lowest SQNR",
}
"""Names of evidence for people, unless the key itself reads well."""


def findings_report(
    document: Document,
    checked: CheckResult,
    *,
    choice: Choice = Choice(),  # noqa: B008  it is frozen
    verbose: bool = False,
    none: str = "no findings",
) -> Report:
    """The chosen findings as blocks, or as a table if columns are chosen, and a last line with totals.

    `verbose` and `none` as in `summary_line`.
    """
    totals = marked_total(summary_line(checked, verbose=verbose, none=none), partial=document.partial)
    data = findings_table(document, checked.findings)
    (shown,) = choose([data], replace(choice, columns=()))
    more = len(checked.findings) - len(shown.rows)
    listed: Parts = [replace(shown, footer=())] if choice.columns else finding_parts(document, shown.rows)
    blocks = [*listed, *trial_parts(document.trials)]
    lines = [*([f"{plural(more, 'more finding')} not shown (--top)"] if more else []), totals]
    report = Report([*blocks, notes_table(lines, "summary")], data)
    return marked(report, document) if document.stopped else report  # what did not run is a finding itself


def finding_parts(document: Document, findings: Sequence[Finding]) -> Parts:
    """For each finding its title, followed by its modules, tensors, evidence, advice and plan."""
    parts: Parts = []
    for finding in findings:
        parts += [
            f"{finding.code} {severity_name(finding.severity)}: {finding.title}",
            _finding_table(document, finding),
            *plan_parts(finding),
        ]
    return parts


def _finding_table(document: Document, finding: Finding) -> Table:
    return facts_table([(f"  {name}", text) for name, text in finding_lines(document, finding)])


def finding_lines(document: Document, finding: Finding) -> list[tuple[str, str]]:
    """What is known about a finding beyond its title, as pairs of a name and a text."""
    lines = {
        "modules": module_names(document, finding.modules, _SHOWN) if finding.modules else "",
        "tensors": joined_names(fold_names(finding.tensors), _SHOWN),
        "gain": gain_text(finding.gain, document) if finding.gain is not None else "",
        "verified": finding.verified,
        "evidence": _evidence_line(finding.evidence, _LABELS),
        "advice": finding.advice,
    }
    return [(name, text) for name, text in lines.items() if text]


def findings_table(document: Document, findings: Sequence[Finding]) -> Table:
    """One row per finding."""
    columns: tuple[Column[Finding], ...] = (
        *NAMING,
        Column("gain", lambda finding: short_gain(finding.gain), "right", order=_gained),
        Column("verified", lambda finding: finding.verified or None, shrinks=True, drops=True),
        Column("modules", lambda one: module_names(document, one.modules, _ALL) or None, shrinks=True, drops=True),
        Column("tensors", lambda finding: ", ".join(fold_names(finding.tensors)) or None, shrinks=True, drops=True),
        Column("evidence", lambda finding: _evidence_line(finding.evidence, {}) or None, shrinks=True, drops=True),
        Column("advice", lambda finding: finding.advice, shrinks=True, drops=True),
    )
    return Table(columns, findings)


def _gained(finding: Finding) -> float | None:
    return None if finding.gain is None else finding.gain.share.value


_METHODS = {Modelled: "modelled", Measured: "measured"}


def rules_table(rules: Sequence[Rule]) -> Table:
    """One row per rule: what it looks for, its advice, and the data it needs."""
    return Table(_RULES, rules)


def summary_line(checked: CheckResult, *, verbose: bool = False, none: str = "no findings") -> str:
    """`1 warning, 3 suggestions (48 rules checked, 2 skipped: see -v)`; if `verbose`, without `: see -v`.

    `none` replaces the counts if there are no findings.
    """
    counts = Counter(finding.severity for finding in checked.findings)
    findings = ", ".join(_severity_count(counts[severity], severity) for severity in SEVERITIES if counts[severity])
    rules = plural(checked.rules - len(checked.skipped), "rule")
    hint = "" if verbose else ": see -v"
    skipped = f", {len(checked.skipped)} skipped{hint}" if checked.skipped else ""
    return f"{findings or none} ({rules} checked{skipped})"


def _evidence_line(evidence: Mapping[str, Figure], labels: Mapping[str, str]) -> str:
    """Names and values on one line; a value that was measured or modelled is marked as such."""
    methods = {name: _METHODS.get(type(figure.how)) for name, figure in evidence.items()}
    return ", ".join(
        f"{name} {text}{f' ({methods[key]})' if methods[key] and text != units.UNKNOWN else ''}"
        for key, name, text in evidence_texts(evidence, labels)
    )


def evidence_texts(evidence: Mapping[str, Figure], labels: Mapping[str, str] = _LABELS) -> list[tuple[str, str, str]]:
    """The key, the name for people and the formatted value of each figure."""
    return [
        (key, labels.get(key, key.removesuffix("_s").replace("_", " ")), _figure(key, figure.value))
        for key, figure in evidence.items()
    ]


def _figure(name: str, value: float | None) -> str:
    return units.UNKNOWN if value is None else next(show for matches, show in _FORMATS if matches(name))(value)


def _severity_count(count: int, severity: str) -> str:
    return plural(count, severity_name(severity))


def severity_name(severity: str) -> str:
    """The severity as it is printed: `suggestion` for `advice`."""
    return "suggestion" if severity == "advice" else severity
