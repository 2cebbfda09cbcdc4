"""`assay extract`: the two files of uniques in a directory."""

from __future__ import annotations

import os
from pathlib import Path

import click

from assay import units
from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import narration_options, optional_model_argument, run_options


@click.command()
@optional_model_argument
@click.option("--model-path", metavar="WHERE", help="The model, where it is not given as MODEL.")
@run_options
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Where to write; ./<ModelClassName>/ where left out.",
)
@narration_options
def extract(
    narrator: Narrator,
    model: str | None,
    model_path: str | None,
    inputs: str | None,
    options: RunOptions,
    directory: Path | None,
) -> int:
    """Write unique_modules.json and pytorch_ops.json of MODEL, both or neither, and print their paths."""
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.files import modules_file, ops_file
    from assay.views.json.write import check_directory, default_directory, write_uniques

    if directory is not None:
        check_directory(directory)
    document = document_of(narrator, _only(model, model_path), inputs, options)
    modules, ops = modules_file(document), ops_file(document)
    for path in write_uniques(directory or default_directory(document), modules, ops):
        click.echo(os.fsencode(path))
    narrator.note(
        f"{units.exact(modules.metadata.total_modules)} modules, {units.exact(len(modules.modules))} unique; "
        f"{units.exact(ops.metadata.total_ops)} ops, {units.exact(len(ops.ops))} unique"
    )
    return exit_code(narrator, document)


def _only(model: str | None, model_path: str | None) -> str:
    """The one of the two that was given."""
    given = [each for each in (model, model_path) if each is not None]
    if len(given) != 1:
        raise click.UsageError("one model is wanted: give MODEL or --model-path", click.get_current_context())
    return given[0]
