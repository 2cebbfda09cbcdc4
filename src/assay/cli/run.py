"""`assay run`: a program with the captures of its decorated models switched on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.narration import Narrator
from assay.cli.options import narration_options

if TYPE_CHECKING:
    from assay.api.capture.directory import TraceDirectory


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS] --",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default="traces",
    show_default=True,
    help="Where the traces go; those of the last run there make way.",
)
@click.option("--every", type=click.IntRange(min=1), metavar="N", help="Capture every Nth pass of each model.")
@click.option("--warmup", type=click.IntRange(min=0), metavar="N", help="Leave out the first N passes of each model.")
@click.option(
    "--max", "most", type=click.IntRange(min=1), metavar="N", help="Capture N passes of each model at most."
)
@click.option("--gzip", is_flag=True, help="Compress the traces: .json.gz.")
@click.option("--keep", is_flag=True, help="Keep the traces of the last run; new ones get names of their own.")
@click.argument("words", metavar="COMMAND [ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
@narration_options
def run(
    narrator: Narrator,
    directory: Path,
    every: int | None,
    warmup: int | None,
    most: int | None,
    gzip: bool,
    keep: bool,
    words: tuple[str, ...],
) -> int:
    """Run a program and write a trace of every forward pass of its models.

    Which models: those decorated with assay.capture_model. COMMAND is `python my_script.py`, `my_script.py`,
    `-m package.module` or anything else that runs Python. The exit code is the program's own. ASSAY_DEBUG=1
    explains on stderr what is captured and what is not; -q leaves out the tables of layers.
    """
    from assay.api.capture import child, environment
    from assay.api.capture.directory import TraceDirectory

    command = child.command_of(words)
    with TraceDirectory(directory.absolute()).opened(keep=keep) as traces:
        if traces.removed:
            narrator.detail(f"{traces.removed} traces of the last run in {directory} made way")
        settings = {
            environment.CAPTURE: "1",
            environment.DIRECTORY: str(traces.path),
            environment.MANIFEST: str(traces.manifest),
            environment.EVERY: str(every or 1),
            environment.WARMUP: str(warmup or 0),
            environment.MOST: str(most or ""),
            environment.GZIP: str(int(gzip)),
            environment.TABLE: str(int(not narrator.quiet)),
        }
        code = child.run(command, settings)
        _tell(narrator, traces, directory)
    return code


def _tell(narrator: Narrator, traces: TraceDirectory, directory: Path) -> None:
    """Say where the traces are, or what to look at where there are none."""
    written = traces.written()
    if not written:
        narrator.warn(
            "no traces were written: is a model decorated with @capture_model, and was it called? "
            "ASSAY_DEBUG=1 explains every decision"
        )
    elif len(written) == 1:
        narrator.note(f"1 trace: {directory / written[0].name} (assay trace reads it)")
    else:
        narrator.note(f"{len(written)} traces in {directory} (assay trace {directory} reads them)")
