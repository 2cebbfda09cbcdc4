"""`assay explore`: browse a model, document or checkpoint in the terminal."""

from __future__ import annotations

import click

from assay.api.options import RunOptions
from assay.cli.options import OptionGroups, model_argument, run_options, verbosity_options
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.errors import OK


@click.command(cls=OptionGroups)
@model_argument
@click.option("--theme", default="", metavar="NAME", help="Colour theme: textual-dark, textual-light, nord, …")
@click.option("--stats", is_flag=True, help="Run the model once more and record statistics of every module call.")
@click.option("--no-run", is_flag=True, help="Show only the tree and the tensors, without running the model.")
@run_options
@verbosity_options
def explore(
    messages: Messages, model: str, inputs: str | None, options: RunOptions, theme: str, stats: bool, no_run: bool
) -> int:
    """Browse MODEL in the terminal: its tree, cost, tensors, code and findings. Press ? for the keys.

    The model runs once, with --inputs or inferred inputs, to record FLOPs, shapes and calls. If that fails, the tree
    opens without them. Opening a checkpoint runs no code.
    """
    from assay.api.explore.subjects import explorer_subject
    from assay.api.explore.terminal import check_terminal, run_explorer

    if no_run and (inputs is not None or stats):
        raise click.UsageError("--no-run cannot be combined with --inputs or --stats")
    check_terminal(theme)
    with prints_to_stderr():
        subject = explorer_subject(
            model, inputs, options, run=False if no_run else None, stats=stats, on_progress=messages.line
        )
    for note in subject.notes:
        messages.detail(note)
    messages.line.close()
    run_explorer(subject, theme=theme)
    return OK
