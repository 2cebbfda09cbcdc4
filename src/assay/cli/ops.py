"""`assay ops`: the unique operations of a model."""

from __future__ import annotations

import click

from assay import units
from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import Output, model_argument, narration_options, output_options, run_options
from assay.cli.output import emit


@click.command()
@model_argument
@run_options
@output_options
@narration_options
def ops(narrator: Narrator, model: str, inputs: str | None, options: RunOptions, output: Output) -> int:
    """Unique operations of MODEL: equal in operation, attributes and tensor types.

    MODEL is file.py::function, package.module:name, a directory with config.json, a .pt2 file or a saved document.
    JSON is the form of
    pytorch_ops.json.
    """
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.files import encode, encode_lines, ops_file
    from assay.views.text.uniques import op_table

    document = document_of(narrator, model, inputs, options, output)
    file = ops_file(document)
    emit(
        output,
        lambda: op_table(file.ops),
        {"json": lambda: encode(file), "jsonl": lambda: encode_lines(file.ops)},
    )
    told = file.metadata
    narrator.note(f"{units.exact(told.total_ops)} ops, {units.exact(told.unique_ops)} unique")
    return exit_code(narrator, document)
