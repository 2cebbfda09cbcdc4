"""Messages on stderr: on a terminal they wrap between words, in logs they stay on one line."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

import pytest
from rich.cells import cell_len

from assay.cli import stderr
from assay.cli.main import COMMANDS, run
from assay.cli.progress import ProgressLine
from assay.cli.stderr import Messages

LONG = "the measured time of this model varies: close other programs, plug in the power supply and run it again"
PATH = "/a/very/long/path" * 6
WITHOUT_MODEL = {"machine": [], "run": ["x.py"]}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def printed(monkeypatch):
    """Prints a message as a note on a terminal of so many columns; returns its lines."""

    def call(text: str, columns: int | None) -> list[str]:
        stream = io.StringIO() if columns is None else Terminal()
        monkeypatch.setattr(stderr, "columns", lambda _: columns)
        with contextlib.redirect_stderr(stream):
            Messages().note(text)
        return stream.getvalue().splitlines()

    return call


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_a_message_wraps_between_words_under_its_beginning(printed, columns):
    lines = printed(LONG, columns)
    assert all(cell_len(line) <= columns for line in lines)
    assert lines[0].startswith("assay: the measured")
    assert all(line.startswith("       ") and line[7] != " " for line in lines[1:])
    assert " ".join(line[7:] for line in lines) == LONG
    assert len(lines) == {40: 4, 80: 2, 140: 1}[columns]


def test_a_log_gets_one_line(printed):
    assert printed(LONG, None) == [f"assay: {LONG}"]


def test_a_path_stays_whole_so_that_it_can_be_copied(printed):
    assert printed(f"wrote {PATH} (open it)", 80) == ["assay: wrote", f"       {PATH}", "       (open it)"]


def test_an_error_wraps_and_its_traceback_does_not(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(stderr, "columns", lambda _: 60)
    with contextlib.redirect_stderr(stream):
        Messages().fail(LONG, ValueError(), f"  File {PATH}\n    {LONG}\n")
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("assay: error: the measured time")
    assert lines[-2:] == [f"  File {PATH}", f"    {LONG}"]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("rule", "env", "schema", "completion")])
def test_the_line_exists_before_a_command_does_anything(name, monkeypatch, capsys):
    def stop(line: ProgressLine) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressLine, "__enter__", stop)
    assert run([name, *WITHOUT_MODEL.get(name, ["nowhere"])]) == 130
    assert capsys.readouterr().err == "assay: interrupted\n"


def test_the_line_exists_before_torch_is_imported(environment):
    program = (
        "import sys\nfrom assay.cli.main import run\nfrom assay.cli.progress import ProgressLine\n"
        "def stop(line): raise KeyboardInterrupt\n"
        "ProgressLine.__enter__ = stop\n"
        f"for name in {list(COMMANDS)!r}:\n"
        "    run([name, 'nowhere', '-q'])\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert os.linesep.encode() in done.stderr
