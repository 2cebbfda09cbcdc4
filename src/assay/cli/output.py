"""Getting a result out: rendered in the chosen form, to stdout or into a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from assay import atomic
from assay.cli.options import Output
from assay.errors import UsageError
from assay.views import tables
from assay.views.tables import Table
from assay.views.text import report
from assay.views.text.report import Report


def refuse_overwrite(output: Output, *sources: str | os.PathLike[str] | None) -> None:
    """Refuse, before any long work, files that exist and may not be replaced; what is read never may."""
    read = [Path(str(source).partition("::")[0]) for source in sources if source]
    for path in (output.output, output.save):
        if path is not None and any(_same(path, source) for source in read):
            raise UsageError(f"{path} is what is read: choose another name")
        if path is not None and path.exists() and not output.force:
            raise UsageError(f"{path} exists: choose another name or pass --force")
        if path is not None and path.is_dir():
            raise UsageError(f"cannot write {path}: it is a directory")
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no directory {path.parent}")
    if output.output is not None and output.output == output.save:
        raise UsageError(f"-o and --save both name {output.save}: give them different names")


def _same(path: Path, source: Path) -> bool:
    try:
        return path.samefile(source)
    except (OSError, ValueError):
        return False


def emit(output: Output, shown: Callable[[], Table | Report], encoded: Mapping[str, Callable[[], bytes]]) -> None:
    """Write a result out; `encoded` makes JSON forms, `shown` is the source of all others.

    A command without a JSON form of its own has that of its rows.
    """
    if output.format in encoded:
        data = encoded[output.format]()
    else:
        data = _FORMS[output.format](report.whole(shown()), output).encode()
    if output.output is None:
        click.echo(data, nl=False)
    else:
        atomic.write_bytes(output.output, data, overwrite=output.force)


def show(shown: Report) -> None:
    """Print a report on stdout, fitted to the terminal and colored where it is one."""
    click.echo(_text(shown, "auto", sys.stdout.isatty()).encode(), nl=False)


def _text(shown: Report, color: str, terminal: bool) -> str:
    return report.as_text(shown, width=terminal_width() if terminal else None, color=_colored(color, terminal))


def terminal_width() -> int | None:
    """How many columns stdout has; None where it is no terminal, and lines may be as long as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _colored(choice: str, terminal: bool) -> bool:
    if choice == "auto":
        return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


_FORMS: Mapping[str, Callable[[Report, Output], str]] = {
    "table": lambda shown, output: _text(shown, output.color, output.output is None and sys.stdout.isatty()),
    "csv": lambda shown, output: tables.as_csv(shown.data),
    "json": lambda shown, output: tables.as_json(shown.data),
    "jsonl": lambda shown, output: tables.as_json_lines(shown.data),
    "md": lambda shown, output: report.as_markdown(shown),
}


def utf8(output: Output) -> bool:
    """Whether block characters can be written where the text goes."""
    encoding = "utf-8" if output.output is not None else sys.stdout.encoding or ""
    return encoding.lower().replace("-", "") == "utf8"
