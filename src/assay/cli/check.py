"""`assay check`: problems and suggestions for a model, a saved document or a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from assay.api.options import RunOptions
from assay.cli.options import (
    OptionGroups,
    Output,
    optional_model_argument,
    output_options,
    run_options,
    verbosity_options,
)
from assay.cli.output import emit, refuse_overwrite
from assay.cli.progress import ProgressLine
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.errors import FINDINGS, OK

if TYPE_CHECKING:
    from assay.api.check import CheckReport

FAIL_ON = ("error", "warning")


@click.command(cls=OptionGroups)
@optional_model_argument
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
@run_options
@output_options
@verbosity_options
def check(
    messages: Messages,
    model: str | None,
    inputs: str | None,
    options: RunOptions,
    output: Output,
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
    is 1 only with --fail-on.
    """
    from assay.api.check import EvidenceOptions, check_document, document_to_check
    from assay.cli.observed import (
        exit_code,
        report_run,
        save_document,
        warn_of_other_weights,
        weights_exit_code,
    )
    from assay.findings.catalogue import selected_rules
    from assay.sources.open import open_source
    from assay.views.json.files import encode
    from assay.views.json.findings import findings_file, rules_file
    from assay.views.text.findings import findings_report, rules_table

    refuse_overwrite(output, model, inputs, weights)
    selected = selected_rules(_codes(select) or None, _codes(ignore))  # fails on an unknown code before any long work
    if rules:
        emit(output, lambda: rules_table(selected), {"json": lambda: encode(rules_file(selected))})
        return OK
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'")
    if weights is not None and no_weights:
        raise click.UsageError("--weights and --no-weights exclude each other")
    evidence = EvidenceOptions(weights, not no_weights, not no_measure, seconds)
    with ProgressLine(messages) as line, prints_to_stderr():
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        running = replace(options, backward=backward)
        document = document_to_check(opened, inputs, running, evidence, line.step, line.read)
    report_run(messages, document, fresh=opened.document is None)
    warn_of_other_weights(messages, document, weights)
    if not document.kinds:
        for assumption in document.run.assumptions:
            messages.note(assumption)
    result = check_document(document, selected)
    code = exit_code(messages, document) or weights_exit_code(messages, document)
    save_document(result.document, output, partial=bool(code))
    for skipped in result.skipped:
        messages.detail(f"{skipped.code} skipped: {skipped.why}")
    emit(
        output,
        lambda: findings_report(result.document, result.checked, verbose=messages.verbose > 0),
        {"json": lambda: encode(findings_file(result.document, result.checked))},
        partial=bool(code),
    )
    return code or _fail_on_exit_code(result, fail_on)


def _codes(values: tuple[str, ...]) -> list[str]:
    return [code for text in values for code in text.split(",") if code.strip()]


def _fail_on_exit_code(result: CheckReport, fail_on: str | None) -> int:
    from assay.findings.engine import findings_at_least

    return FINDINGS if fail_on is not None and findings_at_least(result.findings, fail_on) else OK
