"""The progress line: what it shows at every width, when it is shown at all, and that nothing of it stays."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from clocks import HANG_S, VirtualTime
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from assay.api.options import Progress
from assay.cli import progress as module
from assay.cli.progress import ProgressLine, ProgressState, line_text
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr

TIMING = Progress("timing modules and ops", 2, 5, 12.0)
WIDTHS = (39, 59, 79, 99, 199)


class Terminal(io.StringIO):
    """A terminal that keeps everything written to it."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        return screen(self.getvalue())


def screen(written: str) -> list[str]:
    """The lines that a terminal shows, without trailing empty ones; any other escape is an error."""
    rows, column = [""], 0
    for part in re.findall(r"\x1b\[K|[\r\n]|[^\r\n\x1b]+|\x1b", written):
        if part == "\n":
            rows.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            rows[-1] = rows[-1][:column]
        else:
            assert part != "\x1b", "an escape that not every terminal knows"
            rows[-1] = rows[-1][:column].ljust(column) + part + rows[-1][column + len(part) :]
            column += len(part)
    while rows and not rows[-1]:
        rows.pop()
    return rows


class _Bytes(io.RawIOBase):
    """The bytes of a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        self._terminal.write(bytes(data).decode())
        return len(data)


def stdout_on(terminal: Terminal) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(_Bytes(terminal)), encoding="utf-8")


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@contextlib.contextmanager
def line_on(stream, messages=Messages(), **options):  # noqa: B008  it is never changed
    """A progress line on `stream`; between setup and test, pytest would replace a stderr set by a fixture."""
    with contextlib.redirect_stderr(stream), ProgressLine(messages, **options) as line:
        yield line


@pytest.fixture
def clock(monkeypatch):
    virtual = VirtualTime()
    monkeypatch.setattr(module, "time", virtual.time)
    monkeypatch.setattr(module, "threading", virtual.threading)
    return virtual


def text(progress: Progress = TIMING, width: int = 79, *, later_s: float = 0.0, **options) -> str:
    """The line `later_s` after `progress` was reported, which was 12 s after the start."""
    return line_text(ProgressState(progress, 0.0), later_s, 12.0 + later_s, width, **options)


def test_the_line_names_the_stage_and_the_time_left():
    assert text(utf8=False) == "[#####-------------------] 2/5 timing modules and ops  12 s, at most 12 s left"
    unnumbered = TIMING._replace(number=0, stages=0)
    assert text(unnumbered, later_s=6.0).startswith("█" * 18 + "░" * 6)  # 18 s of 24
    assert text(later_s=6.0).endswith("18 s, at most 6 s left")
    assert text(later_s=12.5).endswith("25 s, finishing")
    assert text(TIMING._replace(left_s=125.2)).endswith("12 s, at most 2 min 6 s left")


def test_the_bar_shows_the_stages():
    half = text(Progress("timing ops", 2, 4, None, 1, 2, "op"), utf8=False)
    assert half == "[#########---------------] 2/4 timing ops  1 of 2 ops, 12 s"  # (1 + 0.5) / 4 of 24
    assert text(Progress("opening the model")) == "opening the model  12 s"
    assert text(Progress("")) == "starting  12 s"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_narrow_terminal_keeps_the_stage_and_the_time_left(width):
    line = text(width=width)
    assert cell_len(line) <= width
    assert "2/5 timing" in line
    assert line.endswith("at most 12 s left")


@given(st.text(max_size=60), st.integers(0, 250), st.booleans(), st.none() | st.floats(0, 1e5), st.integers(0, 9))
def test_no_line_wraps(stage, width, utf8, left_s, number):
    line = text(Progress(stage, number, number and 9, left_s), width, utf8=utf8)
    assert cell_len(line) <= width
    assert line.isprintable()
    assert utf8 or line.isascii()


def test_reading_shows_bytes_speed_and_time_left():
    state = ProgressState(Progress("", items=1 << 30, total=4 << 30, unit="B"), 2.0, first_at_s=0.0)
    line = line_text(state, 2.0, 2.0, 120, utf8=False)
    assert line == "[######------------------] reading  1 GiB of 4 GiB, 537 MB/s, 2 s, about 6 s left"
    none = state.progress._replace(items=0)
    assert line_text(state._replace(progress=none), 2.0, 2.0, 120).endswith("0 B of 4 GiB, 2 s")


def test_counted_units_have_a_rate_and_the_time_left_of_a_known_total(terminal, clock):
    with line_on(terminal) as line:
        for done in (10, 20, 30):  # the rate counts from the first report on
            line(Progress("checking rules", items=done, total=90, unit="rule"))
            clock.sleep(2.0)
        assert terminal.screen()[0].endswith("checking rules  30 of 90 rules, 5/s, 6 s, about 10 s left")
        for done in (1, 2):
            line(Progress("timing ops", items=done, unit="repeat"))
            clock.sleep(0.5)
        assert terminal.screen() == ["timing ops  2 repeats, 2/s, 7 s"]


def test_a_slow_import_is_shown_instead_of_the_stage(terminal, clock, monkeypatch):
    spec = SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__spec__=spec))
    with line_on(terminal) as line:
        line.step("opening the model")
        clock.sleep(1.0)
        assert terminal.screen() == ["importing torch  1 s"]
        spec._initializing = False
        clock.sleep(1.0)
        assert terminal.screen() == ["opening the model  2 s"]


def test_a_silent_stage_is_redrawn_every_second_and_nothing_stays(terminal, clock, capsys):
    with line_on(terminal) as line:
        line(TIMING)
        assert terminal.getvalue() == ""
        shown = []
        for _ in range(4):
            clock.sleep(1.0)
            shown.append(terminal.screen())
    assert [re.search(r"at most .* left", row)[0] for (row,) in shown] == [
        f"at most {s} s left" for s in (11, 10, 9, 8)
    ]
    assert terminal.screen() == []
    assert capsys.readouterr().out == ""


def test_a_command_that_ends_at_once_shows_nothing(terminal, clock):
    with line_on(terminal) as line:
        line(TIMING)
        clock.sleep(0.3)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("reason", ["quiet", "pipe", "closed"])
def test_nothing_is_shown_if_nobody_looks(terminal, clock, monkeypatch, reason):
    monkeypatch.setattr(module, "PRINTED_AFTER_S", 1.0)
    monkeypatch.setattr(terminal, "isatty", lambda: reason == "quiet")
    with line_on(None if reason == "closed" else terminal, Messages(quiet=reason != "closed")) as line:
        line(TIMING)
        clock.sleep(5.0)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("reason", ["pipe", "dumb"])
def test_where_no_line_can_be_drawn_each_long_stage_is_printed_once(terminal, clock, monkeypatch, reason):
    monkeypatch.setattr(module, "PRINTED_AFTER_S", 1.0)
    monkeypatch.setattr(terminal, "isatty", lambda: reason == "dumb")
    monkeypatch.setenv("TERM", "dumb" if reason == "dumb" else "xterm")
    with line_on(terminal) as line:
        clock.sleep(5.0)
        for stage, seconds in (("opening the model", 3.0), ("inferring inputs", 0.4), ("recording a pass", 1.5)):
            line.step(stage)
            clock.sleep(seconds)
            line.read(1, 2)
    assert terminal.getvalue() == "assay: opening the model\nassay: recording a pass\n"


def test_verbose_prints_each_stage_once_above_the_line(terminal, clock):
    with line_on(terminal, Messages(verbose=1)) as line:
        for done in (0, 1, 2):
            line(TIMING._replace(items=done))
            clock.sleep(1.0)
        line.step("checking rules")
        clock.sleep(1.0)
        assert terminal.screen()[:2] == ["assay: timing modules and ops", "assay: checking rules"]
        assert terminal.screen()[2:] == ["checking rules  4 s"]
    assert terminal.screen() == ["assay: timing modules and ops", "assay: checking rules"]


def test_what_the_model_prints_appears_above_the_line(terminal, clock, capsys):
    with line_on(terminal) as line, prints_to_stderr():
        line(TIMING)
        clock.sleep(1.0)
        sys.stdout.write("hello\n")
        sys.stdout.write("loading")
        clock.sleep(1.0)
        assert terminal.screen() == ["hello", "loading"]
        sys.stdout.write(" done\n")
        sys.stderr.writelines(["a\n", "b\n"])
        clock.sleep(1.0)
        assert terminal.screen()[:-1] == ["hello", "loading done", "a", "b"]
        assert terminal.screen()[-1].endswith("at most 9 s left")
    assert terminal.screen() == ["hello", "loading done", "a", "b"]
    assert capsys.readouterr().out == ""


def test_a_result_appears_above_the_line(terminal, clock):
    """Data is written as bytes, to the same terminal as the line."""
    with contextlib.redirect_stdout(stdout_on(terminal)), line_on(terminal) as line:
        line(TIMING)
        clock.sleep(1.0)
        sys.stdout.buffer.write(b"a table\n")
        assert terminal.screen() == ["a table"]
        clock.sleep(1.0)
        assert terminal.screen()[0] == "a table"
        assert "timing" in terminal.screen()[1]
    assert terminal.screen() == ["a table"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_error_restores_the_terminal(terminal, error):
    before = threading.active_count()
    with contextlib.redirect_stderr(terminal):
        with contextlib.suppress(error), ProgressLine(Messages()) as line:
            line(TIMING)
            assert sys.stderr is not terminal
            raise error
        assert sys.stderr is terminal
    assert threading.active_count() == before
    assert terminal.screen() == []


def test_a_terminal_that_was_closed_does_not_stop_the_command(terminal, clock):
    with line_on(terminal) as line:
        line(TIMING)
        clock.sleep(1.0)
        terminal.close()
        clock.sleep(1.0)


def test_a_stream_that_is_not_utf_8_gets_ascii(terminal, clock, monkeypatch):
    monkeypatch.setattr(Terminal, "encoding", "latin-1")
    with line_on(terminal) as line:
        line(TIMING)
        clock.sleep(1.0)
    assert "[##" in terminal.getvalue()
    assert terminal.getvalue().isascii()


PROGRAM = """
import signal, sys
from assay.api.options import Progress
from assay.cli import main, progress
from assay.cli.stderr import Messages
signal.signal(signal.SIGINT, signal.default_int_handler)
def wait(arguments, messages):
    with progress.ProgressLine(messages) as line:
        line(Progress("timing modules and ops of a large model", 2, 5, 600.0))
        signal.pause()
main._invoke = wait
sys.exit(main.run([]))
"""


ENDS = {"SIGINT": (130, ["assay: interrupted"]), "SIGTERM": (-15, []), "SIGHUP": (-1, [])}
"""The exit code and what stays on the terminal."""


@pytest.mark.skipif(os.name == "nt", reason="pseudo terminals exist on POSIX only")
@pytest.mark.parametrize(
    ("columns", "name"), [(40, "SIGINT"), (80, "SIGINT"), (200, "SIGINT"), (80, "SIGTERM"), (80, "SIGHUP")]
)
def test_a_signal_in_a_real_terminal(environment, columns, name):
    """The line has one row at every width, and after Ctrl-C or a kill nothing of it stays."""
    import fcntl
    import pty
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    program = [sys.executable, "-c", PROGRAM]
    variables = {**environment, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(program, stdin=child, stdout=subprocess.PIPE, stderr=child, env=variables)
    os.close(child)
    written = b""
    while written.count(b"left") < 2:  # drawn and redrawn
        written += os.read(parent, 4096)
    assert all(len(row) < columns for row in screen(written.decode()))
    assert len(screen(written.decode())) == 1
    process.send_signal(getattr(signal, name))
    written += _rest(parent)
    code, left = ENDS[name]
    assert process.wait(HANG_S) == code
    assert process.stdout.read() == b""
    process.stdout.close()
    assert screen(written.decode()) == left


def _rest(parent: int) -> bytes:
    """Everything written until the other side is closed, which Linux reports as an error."""
    written = b""
    try:
        while data := os.read(parent, 4096):
            written += data
    except OSError:
        pass
    finally:
        os.close(parent)
    return written
