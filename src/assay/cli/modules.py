"""`assay modules`: the unique modules of a model."""

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
def modules(narrator: Narrator, model: str, inputs: str | None, options: RunOptions, output: Output) -> int:
    """Unique modules of MODEL: equal in class, call signatures, configuration, own tensors and submodules.

    MODEL is file.py::function, package.module:name, a directory with config.json, a .pt2 file or a saved document.
    JSON is the form of
    unique_modules.json.
    """
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.files import encode, encode_lines, modules_file
    from assay.views.text.uniques import module_table

    document = document_of(narrator, model, inputs, options, output)
    file = modules_file(document)
    emit(
        output,
        lambda: module_table(file.modules),
        {"json": lambda: encode(file), "jsonl": lambda: encode_lines(file.modules)},
    )
    told = file.metadata
    narrator.note(f"{units.exact(told.total_modules)} modules, {units.exact(told.unique_modules)} unique")
    return exit_code(narrator, document)
