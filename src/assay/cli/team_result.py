"""The result of `assay check`: the findings after the baseline, the budget, their formats and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from assay import atomic
from assay.analysis.achieved import Achieved
from assay.api.budget import check_budget, document_limits
from assay.api.check import CheckReport
from assay.cli.options import Output
from assay.cli.stderr import Messages
from assay.cli.team import CheckPlan, summary_path
from assay.document.document import Document
from assay.errors import FINDINGS, OK, WriteError
from assay.findings.baseline import BaselineComparison, compare
from assay.findings.baseline_files import accepted_in, write_baseline
from assay.findings.brief import Brief
from assay.findings.brief_any import checked_brief
from assay.findings.budget import BudgetReport
from assay.findings.engine import CheckResult, findings_at_least
from assay.machine.limits import device_of
from assay.messages import plural
from assay.sources.definitions import source_line
from assay.views.choosing import Choice
from assay.views.json.files import encode
from assay.views.json.findings import findings_file
from assay.views.json.sarif import sarif
from assay.views.text.brief import with_brief
from assay.views.text.budget import budget_line, budget_table
from assay.views.text.facts import notes_table
from assay.views.text.findings import findings_report
from assay.views.text.findings_annotations import workflow_annotations
from assay.views.text.findings_markdown import findings_markdown
from assay.views.text.report import Parts, Report


@dataclass(frozen=True)
class TeamResult:
    """What a check reports."""

    plan: CheckPlan
    document: Document
    checked: CheckResult
    """The findings that are reported: with a baseline, only new ones."""
    comparison: BaselineComparison | None
    budget: BudgetReport | None
    brief: Brief | None

    @property
    def exit_code(self) -> int:
        """1 if a reported finding is as severe as --fail-on or a limit is exceeded, otherwise 0."""
        limit = self.plan.fail_on
        failing = limit not in (None, "never") and findings_at_least(self.checked.findings, str(limit))
        fails = bool(failing) and not self.plan.options.write_baseline
        return FINDINGS if fails or (self.budget is not None and self.budget.failed) else OK

    @property
    def notes(self) -> list[str]:
        """What was left out because of the baseline, and what it has in excess."""
        if self.comparison is None:
            return []
        known, gone = self.comparison.known, len(self.comparison.gone)
        hidden = f"{plural(known, 'known finding')} of the baseline not shown" if known else ""
        fixed = f"{plural(gone, 'finding')} of the baseline {'is' if gone == 1 else 'are'} gone"
        return list(filter(None, (hidden, f"{fixed}: update it with --write-baseline --force" if gone else "")))

    def report(self, choice: Choice, *, verbose: bool) -> Report:
        """The brief, the chosen findings, and the budget."""
        none = "no findings" if self.comparison is None else "no new findings"
        report = findings_report(self.document, self.checked, choice=choice, verbose=verbose, none=none)
        report = report if self.brief is None else with_brief(self.brief, report, self.document)
        if self.budget is None:
            return report
        parts: Parts = ["Budget", budget_table(self.budget), notes_table([budget_line(self.budget)], "summary")]
        return Report([*report.parts, *parts], report.data)

    def encoders(self) -> Mapping[str, Callable[[], bytes]]:
        """The encoder of each format that is not just the rows of the report."""
        return {
            "json": lambda: encode(findings_file(self.document, self.checked, self.comparison, self.budget)),
            "md": lambda: self.markdown().encode(),
            "sarif": self.sarif,
            "github": lambda: self._annotations().encode(),
        }

    def markdown(self) -> str:
        """The findings as Markdown for a pull request or a step summary."""
        return findings_markdown(self.document, self.checked, self.brief, self.budget, self.notes)

    def sarif(self) -> bytes:
        """The findings as SARIF."""
        place = source_line(self.document.origin.location)
        return sarif(self.document, self.checked.findings, self.plan.rules, *(place or (None, None)))

    def _annotations(self) -> str:
        place = source_line(self.document.origin.location)
        return workflow_annotations(self.checked.findings, self.budget, *(place or (None, None)))


def team_result(
    plan: CheckPlan,
    result: CheckReport,
    rows: Sequence[Achieved] = (),
    source: str = "",
    missing: Mapping[str, str] | None = None,
) -> TeamResult:
    """The result of a check after its baseline and its budget; `rows`, `source`, `missing` as in `model_brief`."""
    document, checked, comparison = result.document, result.checked, None
    if plan.baseline is not None and not plan.options.write_baseline:
        skipped = {each.code for each in checked.skipped}
        applied = [rule.code for rule in plan.rules if rule.code not in skipped]
        comparison = compare(accepted_in(plan.baseline, document), document, checked.findings, applied)
    shown = checked if comparison is None else replace(checked, findings=comparison.new)
    device = device_of(document)
    brief = checked_brief(document, shown.findings, rows=rows, missing=missing, device=device, source=source)
    return TeamResult(plan, document, shown, comparison, _budget(plan, document, checked), brief)


def _budget(plan: CheckPlan, document: Document, checked: CheckResult) -> BudgetReport | None:
    """The budget compared with the model; findings of the baseline count, too."""
    if plan.budget is None:
        return None
    return check_budget(document, checked, document_limits(plan.budget, document), plan.budget.path.parent)


def write_team_files(messages: Messages, result: TeamResult, output: Output, *, partial: bool) -> None:
    """Write the baseline, the SARIF file and the step summary, if they were requested."""
    options, baseline = result.plan.options, result.plan.baseline
    if options.write_baseline and baseline is not None:
        if partial:
            messages.warn(f"{baseline} was not written, because the result is incomplete")
        else:
            findings = result.checked.findings
            write_baseline(baseline, result.document, findings, overwrite=output.force)
            messages.note(f"wrote {plural(len(findings), 'finding')} to {baseline}")
    if options.sarif is not None:
        atomic.write_result(options.sarif, result.sarif(), partial=partial, overwrite=output.force)
    if options.summary:
        _append_summary(result.markdown())
    for note in result.notes:
        messages.note(note)


def _append_summary(text: str) -> None:
    try:
        with summary_path().open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise WriteError(f"cannot write the step summary: {error.strerror or error}") from error
