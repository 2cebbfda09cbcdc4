"""Messages on stderr: notes, warnings and errors, while the data goes to stdout."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass

import click

_LONGEST_LINE = 2000
"""Longer messages are shortened: an error that quotes its argument must not flood the terminal."""


@dataclass
class Messages:
    """Prints the messages of a command, as many as its `-q` and `-v` options allow."""

    quiet: bool = False
    verbose: int = 0

    def note(self, line: str) -> None:
        """Print a message unless `-q` is set."""
        if not self.quiet:
            _to_stderr(f"assay: {_one_line(line)}")

    def detail(self, line: str) -> None:
        """Print a message only with `-v`."""
        if self.verbose:
            self.note(line)

    def warn(self, line: str) -> None:
        """Print a message that explains the exit code; `-q` does not suppress it."""
        _to_stderr(f"assay: {_one_line(line)}")

    def fail(self, message: str, error: BaseException, frames: str = "") -> None:
        """Print an error as one line, followed by the user's own `frames`, or with `-vv` by the full traceback."""
        _to_stderr(f"assay: error: {_one_line(message)}")
        if self.verbose > 1:
            _print_traceback(error)
        elif frames:
            _to_stderr(frames.rstrip())

    def fail_internally(self, error: BaseException) -> None:
        """Print one line about a bug in Assay itself, with `-vv` followed by the traceback."""
        from assay.messages import error_line

        advice = "please report it" if self.verbose > 1 else "rerun with -vv and report it"
        _to_stderr(f"assay: internal error: {_one_line(error_line(error))} ({advice})")
        if self.verbose > 1:
            _print_traceback(error)


def _one_line(text: str) -> str:
    """`text` on one line of limited length, with control characters escaped."""
    from assay.views.tables import printable

    line = printable(" ".join(text.split()))
    if len(line) <= _LONGEST_LINE:
        return line
    half = _LONGEST_LINE // 2
    return f"{line[:half]} … {line[-half:]}"


def _print_traceback(error: BaseException) -> None:
    _to_stderr("".join(traceback.format_exception(error)).rstrip())


def _to_stderr(text: str) -> None:
    from assay.views.plain import plain
    from assay.views.terminal import is_utf8

    click.echo(text if is_utf8(sys.stderr) else plain(text), err=True)
