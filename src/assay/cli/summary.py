"""`assay summary`: the module tree of a model."""

from __future__ import annotations

from dataclasses import replace

import click

from assay.api.options import RunOptions
from assay.cli.options import (
    OptionGroups,
    Output,
    model_argument,
    output_options_with,
    run_options,
    verbosity_options,
)
from assay.cli.output import emit
from assay.cli.stderr import Messages
from assay.views.choosing import ALL


@click.command(cls=OptionGroups)
@model_argument
@click.option("--full", is_flag=True, help="Show every module; by default, equal blocks share a row.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Show modules down to depth N.")
@click.option("--columns", metavar="LIST", help="Columns to show: input,output,params,macs,flops,… or all.")
@click.option("--exact", is_flag=True, help="Print all digits instead of three.")
@run_options
@output_options_with(own=("columns",))
@verbosity_options
def summary(
    messages: Messages,
    model: str,
    inputs: str | None,
    options: RunOptions,
    output: Output,
    full: bool,
    depth: int | None,
    exact: bool,
    columns: str | None,
) -> int:
    """Print the module tree of MODEL with output shapes, parameters, FLOPs and activation memory.

    The values of a row include its submodules. A row for several equal modules (×N) shows their sum.
    """
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.files import encode
    from assay.views.json.summary import summary_file
    from assay.views.text.summary import Summary
    from assay.views.text.summary_columns import parse_columns

    if columns is not None:
        parse_columns(columns)
    document = document_of(messages, model, inputs, options, output)
    tree = Summary(document, full=full, depth=depth, exact=exact, columns=columns)
    encoders = {"json": lambda: encode(summary_file(document, tree.cost, tree.data_rows))}
    flat = output.sort is not None or output.top is not None
    shown = replace(output, columns=ALL) if columns == ALL else output
    emit(shown, lambda: tree.report(flat=flat), encoders, partial=document.stopped)
    return exit_code(messages, document)
