"""Options of `assay check` for teams, and the settings of a check: options, completed by `[tool.assay]`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import Output, TeamOption, options_as_value
from assay.cli.output import refuse_existing
from assay.cli.stderr import Messages

if TYPE_CHECKING:
    from assay.api.project import BudgetTables, ProjectSettings
    from assay.findings.rule import Rule

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""GitHub Actions sets it to the path of the file that becomes the summary of a step."""

_option = partial(click.option, cls=TeamOption)
_path = click.Path(path_type=Path)


@dataclass(frozen=True)
class TeamOptions:
    """The options for teams as given on the command line."""

    baseline: Path | None = None
    write_baseline: bool = False
    budget: Path | None = None
    sarif: Path | None = None
    summary: bool = False
    no_config: bool = False


team_options = options_as_value(
    TeamOptions,
    "team",
    [
        _option("--baseline", type=_path, metavar="FILE", help="Report only findings that are not in this baseline."),
        _option("--write-baseline", is_flag=True, help="Write all findings to the --baseline file."),
        _option("--budget", type=_path, metavar="FILE", help="Exit with 1 if a limit in this TOML file is exceeded."),
        _option("--sarif", type=_path, metavar="FILE", help="Also write the findings as SARIF."),
        _option("--summary", is_flag=True, help="Also append Markdown to the step summary of GitHub Actions."),
        _option("--no-config", is_flag=True, help="Ignore [tool.assay] in pyproject.toml."),
    ],
    ("baseline", "write_baseline", "budget", "sarif", "summary", "no_config"),
)


@dataclass(frozen=True)
class CheckPlan:
    """The settings of one check."""

    rules: Sequence[Rule]
    fail_on: str | None
    baseline: Path | None
    budget: BudgetTables | None
    options: TeamOptions


def check_plan(
    messages: Messages,
    options: TeamOptions,
    output: Output,
    model: str | None,
    select: Sequence[str],
    ignore: Sequence[str],
    fail_on: str | None,
) -> CheckPlan:
    """The settings of a check; fails before any long work if one of them or one of the files is not valid."""
    from assay.api.project import read_budget
    from assay.findings.baseline_files import check_readable
    from assay.findings.catalogue import selected_rules

    project = _project(messages, options)
    ignored = (*(ignore or project.ignore), *project.ignored_for(model or ""))
    plan = CheckPlan(
        selected_rules(select or project.select, ignored),
        fail_on or project.fail_on,
        options.baseline or project.baseline,
        read_budget(options.budget) if options.budget is not None else project.budget,
        options,
    )
    if options.write_baseline and plan.baseline is None:
        raise click.UsageError("--write-baseline requires --baseline FILE")
    if plan.baseline is not None and not options.write_baseline:
        check_readable(plan.baseline)
    if options.sarif is not None:
        refuse_existing([options.sarif], force=output.force)
    if options.summary:
        summary_path()
    return plan


def summary_path() -> Path:
    """The file of the step summary; UsageError outside GitHub Actions."""
    path = os.environ.get(SUMMARY_VARIABLE)
    if not path:
        raise click.UsageError(f"--summary requires {SUMMARY_VARIABLE}, which GitHub Actions sets")
    return Path(path)


def check_baseline_writable(plan: CheckPlan, output: Output, location: str) -> None:
    """Fail if the findings of the model from `location` would replace others in the baseline without --force."""
    from assay.findings.baseline_files import check_writable

    if plan.options.write_baseline and plan.baseline is not None and not output.force:
        check_writable(plan.baseline, location)


def _project(messages: Messages, options: TeamOptions) -> ProjectSettings:
    """The settings in `[tool.assay]`; the defaults with --no-config."""
    from assay.api.project import ProjectSettings, project_settings

    settings = ProjectSettings() if options.no_config else project_settings()
    if settings.path is not None:
        messages.detail(f"settings from {settings.path}")
    return settings
