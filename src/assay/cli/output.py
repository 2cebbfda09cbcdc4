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
from assay.errors import UsageError
from assay.views import tables
from assay.views.choosing import Choice, choose, parse_names
from assay.views.layout import Style
from assay.views.tables import Table
from assay.views.terminal import has_color, is_utf8
from assay.views.text import report
from assay.views.text.report import Report

PIPE_WIDTH = 120
"""The width of tables in a pipe or file, unless COLUMNS or --width set another."""


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
    measured: bool = False,
) -> None:
    """Write a result to stdout or to the output file; a `partial` one is written beside it, as `name.partial.json`.

    `encoders` maps formats (`json`, `jsonl`) to functions that encode the result; every other format is rendered
    from `view`. Without an encoder of its own, a command's JSON is the rows of `view`.

    Raises:
        UsageError: A chosen column does not exist. Of a `measured` result, everything has been written then, with the
            default columns: what took long to measure is not lost to a misspelled column.
    """
    problem: UsageError | None = None
    if output.format in encoders:
        _refuse_choice(output)
        data = encoders[output.format]()
    else:
        whole = report.as_report(view())
        try:
            chosen = _chosen(whole, output)
        except UsageError as error:
            if not measured:
                raise
            chosen, problem = whole, error
        data = _RENDERERS[output.format](chosen, output).encode()
    if output.output is None:
        click.echo(data, nl=False)
    else:
        write_result(output.output, data, partial=partial, overwrite=output.force)
    if problem is not None:
        raise problem


def _refuse_choice(output: Output) -> None:
    """Fail if columns or rows were chosen for a format that always has all of them."""
    named = [f"--{name}" for name in ("columns", "sort", "top") if getattr(output, name) is not None]
    if named:
        raise UsageError(f"{named[0]} does not apply to --format {output.format}, which is always complete")


def write_result(path: Path, data: bytes, *, partial: bool, overwrite: bool) -> None:
    """Write a result to `path`, or if it is `partial` beside it, which a message says."""
    written = atomic.write_result(path, data, partial=partial, overwrite=overwrite)
    if written != path:
        Messages().warn(f"the partial result is in {written}")


def show(view: Report, output: Output) -> None:
    """Print a report on stdout as text."""
    emit(output, lambda: view, {}, measured=True)


def _text(view: Report, output: Output) -> str:
    return report.as_text(view, text_style(output))


def text_style(output: Output) -> Style:
    """How text is laid out at its destination: stdout, or the output file."""
    is_terminal = output.output is None and sys.stdout.isatty()
    return Style(
        width=None if output.wide else output.width or _default_width(is_terminal),
        color=output.color == "always" if output.color != "auto" else has_color(is_terminal),
        utf8=output.output is not None or is_utf8(sys.stdout),
        all_columns=choice_of(output).all_columns,
    )


def _default_width(is_terminal: bool) -> int:
    """The columns of the terminal; elsewhere COLUMNS, or 120."""
    if is_terminal:
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else PIPE_WIDTH


def choice_of(output: Output) -> Choice:
    """The columns and rows that were asked for."""
    return Choice(parse_names(output.columns), output.sort, output.top)


def _chosen(view: Report, output: Output) -> Report:
    """The report with the columns and rows that were asked for."""
    choice = choice_of(output)
    drawn = [part for part in view.parts if isinstance(part, Table)]
    *chosen, data = choose([*drawn, view.data], choice)
    tables_left = iter(chosen)
    parts = [next(tables_left) if isinstance(part, Table) else part for part in view.parts]
    return Report(parts, data)


_RENDERERS: Mapping[str, Callable[[Report, Output], str]] = {
    "table": _text,
    "csv": lambda view, output: tables.as_csv(view.data),
    "json": lambda view, output: tables.as_json(view.data),
    "jsonl": lambda view, output: tables.as_json_lines(view.data),
    "md": lambda view, output: report.as_markdown(view),
}
