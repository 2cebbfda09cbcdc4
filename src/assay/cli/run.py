"""`assay run`: run a program and trace the forward passes of its decorated models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import verbosity_options
from assay.cli.stderr import Messages
from assay.messages import plural

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
    help="Directory for the traces; they replace those of the previous run.",
)
@click.option("--every", type=click.IntRange(min=1), metavar="N", help="Trace every Nth pass of each model.")
@click.option("--warmup", type=click.IntRange(min=0), metavar="N", help="Skip the first N passes of each model.")
@click.option(
    "--max", "max_passes", type=click.IntRange(min=1), metavar="N", help="Trace at most N passes of each model."
)
@click.option("--gzip", is_flag=True, help="Compress the traces (.json.gz).")
@click.option("--keep", is_flag=True, help="Keep the traces of the previous run; new traces get new names.")
@click.argument("command_words", metavar="COMMAND [ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
@verbosity_options
def run(
    messages: Messages,
    directory: Path,
    every: int | None,
    warmup: int | None,
    max_passes: int | None,
    gzip: bool,
    keep: bool,
    command_words: tuple[str, ...],
) -> int:
    """Run a program and write a trace of every forward pass of its models decorated with assay.capture_model.

    COMMAND is `python my_script.py`, `my_script.py`, `-m package.module` or any other command that runs Python. The
    exit code is that of the program. With ASSAY_DEBUG=1, messages on stderr explain which passes are traced and
    why. -q omits the tables of layers.
    """
    from assay.api.capture import child, environment
    from assay.api.capture.directory import TraceDirectory

    command = child.child_command(command_words)
    messages.line.close()  # the terminal belongs to the program
    with TraceDirectory(directory.absolute()).opened(keep=keep) as traces:
        settings = {
            environment.CAPTURE: "1",
            environment.DIRECTORY: str(traces.path),
            environment.MANIFEST: str(traces.manifest),
            environment.EVERY: str(every or 1),
            environment.WARMUP: str(warmup or 0),
            environment.MAX_PASSES: str(max_passes or ""),
            environment.GZIP: str(int(gzip)),
            environment.TABLE: str(int(not messages.quiet)),
        }
        code = child.run_child(command, settings)
        _print_result(messages, traces, directory)
    if traces.deleted_count:
        messages.detail(f"deleted {plural(traces.deleted_count, 'trace')} of the previous run in {directory}")
    return code


def _print_result(messages: Messages, traces: TraceDirectory, directory: Path) -> None:
    """Print where the traces are, or a hint if there are none."""
    written = traces.written()
    if not written:
        messages.warn(
            "no traces were written: decorate a model with @assay.capture_model and call it "
            "(set ASSAY_DEBUG=1 to see which passes are traced and why)"
        )
    elif len(written) == 1:
        path = directory / written[0].name
        messages.note(f"wrote 1 trace (read it with: assay trace {path})")
    else:
        messages.note(f"wrote {plural(len(written), 'trace')} (read them with: assay trace {directory})")
