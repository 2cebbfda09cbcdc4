"""`assay explore`: a model, document or checkpoint in the terminal explorer."""

from __future__ import annotations

import click

from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import model_argument, narration_options, run_options
from assay.cli.streams import prints_to_stderr
from assay.errors import OK


@click.command()
@model_argument
@click.option("--theme", default="", metavar="NAME", help="Colours: textual-dark, textual-light, nord, …")
@click.option("--stats", is_flag=True, help="Run it once more and record every call of every module.")
@click.option("--no-run", is_flag=True, help="Only the tree and the tensors: nothing is run.")
@run_options
@narration_options
def explore(
    narrator: Narrator, model: str, inputs: str | None, options: RunOptions, theme: str, stats: bool, no_run: bool
) -> int:
    """Explore MODEL in the terminal: its tree, cost, tensors, code and findings. ? shows the keys.

    A model is run once, with --inputs or inferred ones, so that FLOPs, shapes and calls are known; where that fails
    the tree opens all the same. No code of a checkpoint runs.
    """
    from assay.api.explore.subjects import subject_of
    from assay.api.explore.terminal import need_terminal, show

    if no_run and (inputs is not None or stats):
        raise click.UsageError("--no-run runs nothing: --inputs and --stats go without it")
    need_terminal(theme)
    with prints_to_stderr():
        subject = subject_of(model, inputs, options, run=False if no_run else None, stats=stats)
    for note in subject.notes:
        narrator.detail(note)
    show(subject, theme=theme)
    return OK
