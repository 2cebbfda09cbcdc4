"""`assay check`: what a person should know or do about a model, a saved document or a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import Output, narration_options, optional_model_argument, output_options, run_options
from assay.cli.output import emit, refuse_overwrite
from assay.cli.progress import ProgressLine
from assay.cli.streams import prints_to_stderr
from assay.errors import FOUND, OK

if TYPE_CHECKING:
    from assay.api.check import CheckReport

FAIL_ON = ("error", "warning")


@click.command()
@optional_model_argument
@click.option("--select", multiple=True, metavar="CODES", help="Only these rules: W101,C2 (or how they begin).")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option("--weights", metavar="FILE", help="Look into this checkpoint of the model too.")
@click.option("--backward", is_flag=True, help="Watch a training step too: training mode, backward.")
@click.option("--rules", is_flag=True, help="List the rules instead of applying them.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), help="Exit with 1 where something as bad or worse is found.")
@run_options
@output_options
@narration_options
def check(
    narrator: Narrator,
    model: str | None,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    weights: str | None,
    backward: bool,
    rules: bool,
    fail_on: str | None,
) -> int:
    """What to know or do about MODEL, worst first, each with its evidence.

    Of a checkpoint the weights alone are examined, and no code runs. The exit code is 1 only with --fail-on.
    """
    from assay.api.check import checked, examined
    from assay.cli.observed import exit_code, report_run, weights_exit_code
    from assay.document import files
    from assay.findings.catalogue import chosen
    from assay.sources.open import open_source
    from assay.views.json.files import encode
    from assay.views.json.findings import findings_file, rules_file
    from assay.views.text.findings import findings_report, rules_table

    refuse_overwrite(output, model, inputs, weights)
    listed = chosen(_codes(select) or None, _codes(ignore))  # an unknown code is reported before any long work
    if rules:
        emit(output, lambda: rules_table(listed), {"json": lambda: encode(rules_file(listed))})
        return OK
    if model is None:
        raise click.UsageError("Missing argument 'MODEL': what to check")
    with prints_to_stderr(), ProgressLine(not narrator.quiet) as progress:
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
        document = examined(opened, inputs, replace(options, backward=backward), weights, progress)
    report_run(narrator, document, fresh=opened.document is None)
    if not document.kinds:
        for line in document.run.assumptions:
            narrator.note(line)
    result = checked(document, listed)
    if output.save is not None:
        files.save(result.document, output.save, overwrite=output.force)
    for skipped in result.skipped:
        narrator.detail(f"{skipped.code} could not be applied: {skipped.why}")
    emit(
        output,
        lambda: findings_report(result.document, result.checked),
        {"json": lambda: encode(findings_file(result.document, result.checked))},
    )
    return exit_code(narrator, document) or weights_exit_code(narrator, document) or _found(result, fail_on)


def _codes(given: tuple[str, ...]) -> list[str]:
    return [code for text in given for code in text.split(",") if code.strip()]


def _found(result: CheckReport, fail_on: str | None) -> int:
    from assay.findings.engine import at_least

    return FOUND if fail_on is not None and at_least(result.findings, fail_on) else OK
