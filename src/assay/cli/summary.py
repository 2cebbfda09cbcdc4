"""`assay summary`: the module tree of a model at a glance."""

from __future__ import annotations

import click

from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import Output, model_argument, narration_options, output_options, run_options
from assay.cli.output import emit


@click.command()
@model_argument
@click.option("--full", is_flag=True, help="Every module on a line of its own; runs of equal ones are one otherwise.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Modules down to this depth.")
@click.option("--exact", is_flag=True, help="Every digit instead of three.")
@run_options
@output_options
@narration_options
def summary(
    narrator: Narrator,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    full: bool,
    depth: int | None,
    exact: bool,
) -> int:
    """The module tree of MODEL with output shapes, parameters, FLOPs and activation memory.

    Figures of a line cover everything below it and, where it stands for a run of equal siblings, all of them.
    """
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.files import encode
    from assay.views.json.summary import summary_file
    from assay.views.text.summary import Summary

    document = document_of(narrator, model, inputs, options, output)
    made = Summary(document, full=full, depth=depth, exact=exact)
    emit(output, made.report, {"json": lambda: encode(summary_file(document, made.cost, made.rows))})
    return exit_code(narrator, document)
