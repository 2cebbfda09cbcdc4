"""`assay extract`: write the unique modules and the unique ops of a model to two files."""

from __future__ import annotations

import os
from pathlib import Path

import click

from assay.api.options import RunOptions
from assay.cli.options import OptionGroups, optional_model_argument, run_options, verbosity_options
from assay.cli.stderr import Messages
from assay.messages import plural


@click.command(cls=OptionGroups)
@optional_model_argument
@click.option("--model-path", metavar="MODEL", help="The model, as an alternative to the argument MODEL.")
@run_options
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Directory for the files.  [default: ./<ModelClassName>/]",
)
@verbosity_options
def extract(
    messages: Messages,
    model: str | None,
    model_path: str | None,
    inputs: str | None,
    options: RunOptions,
    directory: Path | None,
) -> int:
    """Write unique_modules.json and pytorch_ops.json of MODEL and print their paths.

    If one of the files cannot be written, neither is.
    """
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.files import modules_file, ops_file
    from assay.views.json.write import check_directory, default_directory, write_uniques

    if directory is not None:
        check_directory(directory)
    document = document_of(messages, _single_model(model, model_path), inputs, options)
    modules, ops = modules_file(document), ops_file(document)
    for path in write_uniques(directory or default_directory(document), modules, ops):
        click.echo(os.fsencode(path))
    messages.note(
        f"{plural(modules.metadata.total_modules, 'module')}, {len(modules.modules):,} unique; "
        f"{plural(ops.metadata.total_ops, 'op')}, {len(ops.ops):,} unique"
    )
    return exit_code(messages, document)


def _single_model(model: str | None, model_path: str | None) -> str:
    """The model from the argument or from --model-path; fails unless exactly one of them is set."""
    names = [each for each in (model, model_path) if each is not None]
    if len(names) != 1:
        raise click.UsageError("expected one model: give either MODEL or --model-path", click.get_current_context())
    return names[0]
