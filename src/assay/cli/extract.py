"""`assay extract`: write the unique modules and the unique ops of a model to two files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay import atomic
from assay.api.options import OPENING, RunOptions
from assay.cli.options import OptionGroups, optional_model_argument, run_options, verbosity_options
from assay.cli.output import refuse_existing
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.messages import plural

if TYPE_CHECKING:
    from assay.document.document import Document
    from assay.sources.opened import Opened


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
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@verbosity_options
def extract(
    messages: Messages,
    model: str | None,
    model_path: str | None,
    inputs: str | None,
    options: RunOptions,
    directory: Path | None,
    force: bool,
) -> int:
    """Write unique_modules.json and pytorch_ops.json of MODEL and print their paths.

    If one of the files cannot be written, neither is. If the forward pass stops midway, unique_modules.partial.json
    and pytorch_ops.partial.json are written instead, and the exit code is 4.
    """
    from assay.cli.observed import document_of, exit_code, need_pass
    from assay.sources.open import open_source
    from assay.views.json.write import default_directory, write_uniques

    name = _single_model(model, model_path)
    if directory is not None:
        _refuse_directory(directory, force=force)
    with prints_to_stderr():
        messages.line.step(OPENING)
        opened = open_source(name, model_args=options.model_args, trust=options.trust)
        if directory is None:
            _refuse_directory(default_directory(_class_name(opened)), force=force)
    document = document_of(messages, opened, inputs, options)
    need_pass(document)
    for path in write_uniques(directory or default_directory(document.model_class), document, overwrite=force):
        click.echo(os.fsencode(path))
    messages.note(_counts(document))
    return exit_code(messages, document)


def _refuse_directory(directory: Path, *, force: bool) -> None:
    """Fail, before any long work, if the files cannot be written into `directory`, or exist and `force` is False."""
    from assay.views.json.write import unique_paths

    atomic.check_directory(directory)
    refuse_existing(unique_paths(directory), force=force)


def _class_name(opened: Opened) -> str:
    """The class of the model, for the name of the directory."""
    return opened.document.model_class if opened.document is not None else type(opened.module).__name__


def _counts(document: Document) -> str:
    """`7 modules, 5 unique; 6 ops, 4 unique`."""
    from assay.analysis.uniques import unique_modules, unique_ops
    from assay.views.partial import marked_total

    modules = unique_modules(document)
    ops = marked_total(plural(len(document.ops), "op"), partial=document.partial)
    return (
        f"{plural(len(document.modules), 'module')}, {len(modules.entries):,} unique; "
        f"{ops}, {len(unique_ops(document, modules)):,} unique"
    )


def _single_model(model: str | None, model_path: str | None) -> str:
    """The model from the argument or from --model-path; fails unless exactly one of them is set."""
    names = [each for each in (model, model_path) if each is not None]
    if len(names) != 1:
        raise click.UsageError("expected one model: give either MODEL or --model-path", click.get_current_context())
    return names[0]
