"""`assay check`: problems and suggestions for a model, a saved document or a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from assay.api.options import OPENING, RunOptions
from assay.cli.ceilings import achieved_rows
from assay.cli.options import (
    OptionGroups,
    Output,
    as_typed,
    optional_model_argument,
    output_options_with,
    run_options,
    verbosity_options,
)
from assay.cli.output import choice_of, emit, refuse_overwrite
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.cli.team import CheckPlan, TeamOptions, check_baseline_writable, check_plan, team_options
from assay.cli.trials import TrialOptions, apply_verified, check_trial_options, trial_options, try_on
from assay.errors import OK

if TYPE_CHECKING:
    from assay.views.text.report import Report

FAIL_ON = ("error", "warning", "never")
RENDERED = ("sarif", "github")
"""Formats of findings that other commands do not have."""


@click.command(cls=OptionGroups)
@optional_model_argument
@click.argument("names", nargs=-1, metavar="")
@click.option("--select", multiple=True, metavar="CODES", help="Check only these rules, by code or prefix: W101,C2.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Skip these rules, by code or prefix.")
@click.option("--weights", metavar="FILE", help="Check this checkpoint of the model instead of its own weights.")
@click.option("--no-weights", is_flag=True, help="Do not read the values of weights.")
@click.option("--no-measure", is_flag=True, help="Do not time the ops: findings then do not state their time.")
@click.option(
    "--seconds", type=click.FloatRange(0), default=5.0, show_default=True, help="Seconds after which timing stops."
)
@click.option("--backward", is_flag=True, help="Also run a training step (training mode, backward pass).")
@click.option("--rules", is_flag=True, help="List the rules and exit.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), help="Exit with 1 if a finding is at least this severe.")
@trial_options
@team_options
@run_options
@output_options_with(*RENDERED)
@verbosity_options
def check(
    messages: Messages,
    model: str | None,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    trial: TrialOptions,
    team: TeamOptions,
    names: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    weights: str | None,
    no_weights: bool,
    no_measure: bool,
    seconds: float,
    backward: bool,
    rules: bool,
    fail_on: str | None,
) -> int:
    """Report problems and suggestions for MODEL, most severe first, with their evidence and what they are worth here.

    The model runs for a few seconds. For a checkpoint, only the weights are checked and no code runs. The exit code
    is 1 only with --fail-on or --budget. Settings in [tool.assay] of pyproject.toml apply unless options override
    them.
    """
    from assay.api.attempt import check_can_try
    from assay.api.check import EvidenceOptions, check_document, document_to_check, missing_values
    from assay.cli.observed import (
        exit_code,
        report_not_run,
        report_run,
        save_document,
        warn_of_other_weights,
        weights_exit_code,
    )
    from assay.cli.team_result import team_result, write_team_files
    from assay.document.document import Document
    from assay.sources.open import open_source
    from assay.views.choosing import Choice, choose
    from assay.views.text.findings import findings_table

    refuse_overwrite(output, model, inputs, weights)
    if trial.changes:
        return _list_changes(output)
    shown = check_trial_options(trial, output, model, names)
    wishes = trial.wishes(names) if trial.tries else None
    plan = check_plan(messages, team, output, model, _codes(select), _codes(ignore), fail_on)
    if rules:
        return _list_rules(output, plan)
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'")
    choose([findings_table(Document(), [])], Choice(sort=output.sort))
    if weights is not None and no_weights:
        raise click.UsageError("--weights and --no-weights exclude each other")
    line = messages.line
    evidence = EvidenceOptions(weights, not no_weights, not no_measure, seconds)
    with prints_to_stderr():
        line.step(OPENING)
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        if wishes is not None:
            check_can_try(opened)
        check_baseline_writable(plan, output, opened.origin.location)
        running = replace(options, backward=backward)
        document = document_to_check(opened, inputs, running, evidence, line, line.read)
        result = check_document(document, plan.rules, line)
        if wishes is not None and not document.stopped:
            result = try_on(line, result, model, inputs, running, opened, wishes)
    report_run(messages, document, fresh=opened.document is None)
    warn_of_other_weights(messages, document, weights)
    report_not_run(messages, document)
    for note in document.weights.notes if document.weights is not None else ():
        messages.note(note)
    code = exit_code(messages, document) or weights_exit_code(messages, document)
    save_document(result.document, shown, partial=bool(code))
    for skipped in result.skipped:
        messages.detail(f"{skipped.code} skipped: {skipped.why}")
    missing = missing_values(document, opened, evidence)
    outcome = team_result(plan, result, achieved_rows(messages, document), as_typed(model, inputs, running), missing)

    def report() -> Report:
        return outcome.report(choice_of(shown), verbose=messages.verbose > 0)

    emit(shown, report, outcome.encoders(), partial=bool(code))
    write_team_files(messages, outcome, shown, partial=bool(code))
    if trial.apply and not code:
        code = apply_verified(messages, trial, names, result, model, inputs, running, opened, output)
    return code or outcome.exit_code


def _list_changes(output: Output) -> int:
    from assay.trials.change import changes
    from assay.views.text.trials import changes_table

    emit(output, lambda: changes_table(changes()), {})
    return OK


def _list_rules(output: Output, plan: CheckPlan) -> int:
    from assay.views.json.files import encode
    from assay.views.json.findings import rules_file
    from assay.views.text.findings import rules_table

    if output.format in RENDERED:
        raise click.UsageError(f"--rules cannot be written as {output.format}")
    emit(output, lambda: rules_table(plan.rules), {"json": lambda: encode(rules_file(plan.rules))})
    return OK


def _codes(values: tuple[str, ...]) -> list[str]:
    return [code for text in values for code in text.split(",") if code.strip()]
