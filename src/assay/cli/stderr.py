"""Messages on stderr: notes, warnings and errors, while the data goes to stdout."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TextIO

import click

from assay.cli.progress import ProgressLine
from assay.views.terminal import columns, is_utf8

_PREFIX = "assay: "
_LEAST_ROOM = 20
"""Messages do not wrap closer, however narrow the terminal is."""
_LONGEST_LINE = 2000
"""Longer messages are shortened: an error that quotes its argument must not flood the terminal."""


@dataclass
class Messages:
    """Prints the messages of a command, as many as its `-q` and `-v` options allow."""

    quiet: bool = False
    verbose: int = 0

    @cached_property
    def line(self) -> ProgressLine:
        """The progress line, which exists once per command."""
        return ProgressLine(self)

    def note(self, line: str, stream: TextIO | None = None) -> None:
        """Print a message unless `-q` is set, on `stream` instead of stderr if there is one."""
        if not self.quiet:
            _print_message(line, stream)

    def detail(self, line: str) -> None:
        """Print a message only with `-v`."""
        if self.verbose:
            self.note(line)

    def warn(self, line: str) -> None:
        """Print a message that explains the exit code; `-q` does not suppress it."""
        _print_message(line)

    def fail(self, message: str, error: BaseException, frames: str = "") -> None:
        """Print an error as one line, followed by the user's own `frames`, or with `-vv` by the full traceback."""
        _print_message(f"error: {message}")
        if self.verbose > 1:
            _print_traceback(error)
        elif frames:
            _to_stderr(frames.rstrip())

    def fail_internally(self, error: BaseException) -> None:
        """Print one line about a bug in Assay itself, with `-vv` followed by the traceback."""
        from assay.messages import error_line

        advice = "please report it" if self.verbose > 1 else "rerun with -vv and report it"
        _print_message(f"internal error: {error_line(error)} ({advice})")
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


def _print_message(text: str, stream: TextIO | None = None) -> None:
    """Print one message: on a terminal wrapped between words, elsewhere on one line, for logs and grep."""
    stream, line = stream or sys.stderr, _one_line(text)
    if stream is None or not stream.isatty():
        return _to_stderr(f"{_PREFIX}{line}", stream)
    indent = " " * len(_PREFIX)
    lines = _wrapped(line, max(columns(stream) - len(indent), _LEAST_ROOM))
    return _to_stderr(_PREFIX + f"\n{indent}".join(lines), stream)


def _wrapped(text: str, room: int) -> Iterator[str]:
    """The lines of a message; a word that does not fit, such as a path, stays whole so that it can be copied."""
    from assay.views.cells import cell_len
    from assay.views.layout import wrapped

    for is_long, group in groupby(text.split(" "), key=lambda word: cell_len(word) > room):
        words = list(group)
        yield from words if is_long else wrapped(" ".join(words), room)


def _to_stderr(text: str, stream: TextIO | None = None) -> None:
    from assay.views.plain import plain

    stream = stream or sys.stderr
    try:
        click.echo(text if is_utf8(stream) else plain(text), file=stream, err=True)
    except (OSError, ValueError):  # a stderr that was closed must not end the command, now or when Python exits
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
