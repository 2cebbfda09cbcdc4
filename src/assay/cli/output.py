"""Writing a result in the chosen format, to stdout or to a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click

from assay import atomic
from assay.cli.options import Output
from assay.cli.stderr import Messages
from assay.cli.streams import is_utf8
from assay.errors import UsageError
from assay.views import tables
from assay.views.tables import Table
from assay.views.text import report
from assay.views.text.report import Report


def refuse_overwrite(output: Output, *sources: str | os.PathLike[str] | None) -> None:
    """Fail, before any long work, if an output file exists (without --force), is a source, or cannot be written."""
    source_paths = [Path(str(source).partition("::")[0]) for source in sources if source]
    for path in (output.output, output.save):
        if path is not None and any(_is_same_file(path, source) for source in source_paths):
            raise UsageError(f"cannot write {path}: it is the file being read; choose another name")
        if path is not None and path.is_dir():
            raise UsageError(f"cannot write {path}: it is a directory")
        if path is not None:
            refuse_existing([path], force=output.force)
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: directory {path.parent} does not exist")
    if output.output is not None and output.output == output.save:
        raise UsageError(f"-o and --save both name {output.save}: choose two different files")


def refuse_existing(paths: Iterable[Path], *, force: bool) -> None:
    """Fail if one of the files exists, unless `force`."""
    for path in paths:
        if path.exists() and not force:
            raise UsageError(f"{path} already exists: choose another name or pass --force")


def _is_same_file(path: Path, source: Path) -> bool:
    try:
        return path.samefile(source)
    except (OSError, ValueError):
        return False


def emit(
    output: Output,
    view: Callable[[], Table | Report],
    encoders: Mapping[str, Callable[[], bytes]],
    *,
    partial: bool = False,
) -> None:
    """Write a result to stdout or to the output file; a `partial` one is written beside it, as `name.partial.json`.

    `encoders` maps formats (`json`, `jsonl`) to functions that encode the result; every other format is rendered
    from `view`. Without an encoder of its own, a command's JSON is the rows of `view`.
    """
    if output.format in encoders:
        data = encoders[output.format]()
    else:
        data = _RENDERERS[output.format](report.as_report(view()), output).encode()
    if output.output is None:
        click.echo(data, nl=False)
    else:
        write_result(output.output, data, partial=partial, overwrite=output.force)


def write_result(path: Path, data: bytes, *, partial: bool, overwrite: bool) -> None:
    """Write a result to `path`, or if it is `partial` beside it, which a message says."""
    written = atomic.write_result(path, data, partial=partial, overwrite=overwrite)
    if written != path:
        Messages().warn(f"the partial result is in {written}")


def show(view: Report) -> None:
    """Print a report on stdout; in a terminal, fit it to the width and use colour."""
    click.echo(_text(view, "auto", sys.stdout.isatty()).encode(), nl=False)


def _text(view: Report, color: str, is_terminal: bool) -> str:
    width = terminal_width() if is_terminal else None
    return report.as_text(view, width=width, color=_use_color(color, is_terminal))


def terminal_width() -> int | None:
    """The number of columns of stdout; None if it is not a terminal, so that lines have no limit."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _use_color(choice: str, is_terminal: bool) -> bool:
    if choice == "auto":
        return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


_RENDERERS: Mapping[str, Callable[[Report, Output], str]] = {
    "table": lambda view, output: _text(view, output.color, output.output is None and sys.stdout.isatty()),
    "csv": lambda view, output: tables.as_csv(view.data),
    "json": lambda view, output: tables.as_json(view.data),
    "jsonl": lambda view, output: tables.as_json_lines(view.data),
    "md": lambda view, output: report.as_markdown(view),
}


def utf8(output: Output) -> bool:
    """Whether the destination of the text is encoded as UTF-8."""
    return output.output is not None or is_utf8(sys.stdout)
