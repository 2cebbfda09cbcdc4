"""What a command tells people while its data goes to stdout: everything here goes to stderr."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import click

_LONGEST_LINE = 2000
"""An error that quotes what it was given must not flood a terminal."""


@dataclass
class Narrator:
    """How much is told; the options of a command set it."""

    quiet: bool = False
    verbose: int = 0

    def note(self, line: str) -> None:
        """Tell something useful, unless asked to be quiet."""
        if not self.quiet:
            _to_stderr(f"assay: {_one_line(line)}")

    def detail(self, line: str) -> None:
        """Tell something only those who said `-v` want."""
        if self.verbose:
            self.note(line)

    def warn(self, line: str) -> None:
        """Tell something that explains the exit code: quiet does not silence it."""
        _to_stderr(f"assay: {_one_line(line)}")

    def fail(self, message: str, error: BaseException, frames: str = "") -> None:
        """Tell in one line why there is no result; then the user's own frames, with `-vv` the traceback."""
        _to_stderr(f"assay: error: {_one_line(message)}")
        if self.verbose > 1:
            _traceback(error)
        elif frames:
            _to_stderr(frames.rstrip())

    def fail_internally(self, error: BaseException) -> None:
        """Print one line about a defect of Assay itself, and with `-vv` the traceback."""
        from assay.messages import error_line

        advice = "please report it" if self.verbose > 1 else "rerun with -vv and report it"
        _to_stderr(f"assay: internal error: {_one_line(error_line(error))} ({advice})")
        if self.verbose > 1:
            _traceback(error)


def _one_line(text: str) -> str:
    """`text` on one line of bearable length, with nothing in it that a terminal obeys."""
    from assay.views.tables import printable

    line = printable(" ".join(text.split()))
    if len(line) <= _LONGEST_LINE:
        return line
    half = _LONGEST_LINE // 2
    return f"{line[:half]} … {line[-half:]}"


def _traceback(error: BaseException) -> None:
    _to_stderr("".join(traceback.format_exception(error)).rstrip())


def _to_stderr(text: str) -> None:
    click.echo(text, err=True)
