"""One live line on stderr that shows how far a command has come; nothing of it stays on the screen.

It is not drawn by `rich.live`, whose redraws take 0.3 ms of Python each, against 0.01 ms here: they would disturb the
passes that are being timed. Rich also hides the cursor, which a killed process does not bring back.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from threading import RLock
from typing import NamedTuple, TextIO, cast

from assay import units
from assay.api.options import Progress
from assay.cli.stderr import Messages
from assay.messages import one_line
from assay.views.terminal import is_utf8

REDRAW_S = 0.5
"""Also the time before the line first appears: a command that ends sooner shows none."""
_CLEAR_REST = "\x1b[K"
_LEAST_NAME = 24
"""A longer stage name is shortened before anything else is left out."""
_FALLBACK_COLUMNS = 80
_BLOCKS, _ASCII = ("█", "░", "…"), ("#", "-", "...")


class ProgressState(NamedTuple):
    """What the line shows, and when it was reported."""

    progress: Progress
    at_s: float
    bytes_done: int = 0
    bytes_total: int = 0
    """Total bytes to read; 0 if nothing is being read."""
    reading_since_s: float | None = None
    """When the first bytes of this stage were reported."""


class ProgressLine:
    """Redraws itself while a command works, only if stderr is a terminal and neither -q nor TERM=dumb is set.

    It is called with a `Progress`; `step` and `read` serve callbacks that receive only a text or only bytes. With -v,
    the stages are printed as lines too. While it is shown, everything else that Python code prints on stderr appears
    above it.
    """

    def __init__(self, messages: Messages, without_line: Callable[[str], None] | None = None) -> None:
        """`without_line` prints the stages if no line can be shown; by default only -v prints them."""
        self._stream = sys.stderr
        self._is_shown = not messages.quiet and _is_terminal(self._stream)
        self._print_stage = messages.detail if self._is_shown else without_line or messages.detail
        self._start_s = time.perf_counter()
        self._state = ProgressState(Progress("", 0, 0, None), self._start_s)
        self._ended, self._undo, self._lock = threading.Event(), contextlib.ExitStack(), RLock()
        self._is_drawn = self._is_mid_line = False

    def __call__(self, progress: Progress) -> None:
        """Show `progress` from the next redraw on."""
        before = self._state.progress
        self._state = ProgressState(progress, time.perf_counter())
        if (progress.number, progress.stage) != (before.number, before.stage):
            self._print_stage(progress.stage)

    def step(self, text: str) -> None:
        """Show a stage whose number is unknown."""
        self(Progress(text, 0, 0, None))

    def read(self, done: int, total: int) -> None:
        """Show how many bytes the current stage has read."""
        now = time.perf_counter()
        state = self._state
        since = now if state.reading_since_s is None else state.reading_since_s
        self._state = ProgressState(state.progress, now, done, total, since)

    def __enter__(self) -> ProgressLine:
        if self._is_shown:
            self._undo.enter_context(contextlib.redirect_stderr(cast(TextIO, _AboveLine(self._stream, self))))
            thread = threading.Thread(target=self._redraw, name="assay-progress", daemon=True)
            thread.start()
            self._undo.callback(self._clear)
            self._undo.callback(thread.join)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._undo.close()

    @contextlib.contextmanager
    def cleared(self, text: str) -> Iterator[None]:
        """Remove the line while `text` is written; it returns below the last complete line."""
        with self._lock:
            self._clear()
            yield
            self._is_mid_line = not text.endswith("\n") if text else self._is_mid_line

    def _redraw(self) -> None:
        while not self._ended.wait(REDRAW_S):
            with self._lock:
                if not self._is_mid_line:
                    self._draw()

    def _draw(self) -> None:
        now, width = time.perf_counter(), _columns(self._stream) - 1  # a full last column would wrap
        line = line_text(self._state, now, now - self._start_s, width, utf8=is_utf8(self._stream))
        self._put(line)
        self._is_drawn = True

    def _clear(self) -> None:
        if self._is_drawn:
            self._put("")
            self._is_drawn = False

    def _put(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that was closed must not end the command
            self._stream.write(f"\r{line}{_CLEAR_REST}")
            self._stream.flush()


class _AboveLine:
    """A stream like `stream`, whose output appears above the progress line."""

    def __init__(self, stream: TextIO, line: ProgressLine) -> None:
        self._stream, self._line, self._process = stream, line, os.getpid()

    def write(self, text: str) -> int:
        """Write `text` above the line; a forked child, which has no line and may not get its lock, just writes."""
        if os.getpid() != self._process:
            return self._stream.write(text)
        with self._line.cleared(text):
            return self._stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        """Write all `lines` above the line."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class _Layout(NamedTuple):
    """What a line has room for."""

    bar: int
    bytes: bool = False
    elapsed: bool = True


_LAYOUTS = (_Layout(24, bytes=True), _Layout(24), _Layout(10), _Layout(8, elapsed=False), _Layout(0, elapsed=False))
"""From the longest to the shortest line."""


def line_text(state: ProgressState, now_s: float, elapsed_s: float, width: int, *, utf8: bool = True) -> str:
    """The progress on one line: `[####------] 2/5 timing modules and ops  14 s, at most 12 s left`.

    Args:
        state: What was reported last.
        now_s: The time now, by the clock of `state.at_s`.
        elapsed_s: Seconds since the command started.
        width: Maximum number of terminal cells.
        utf8: Whether block characters can be drawn.
    """
    from rich.cells import cell_len

    name, left_s = _name(state), _left_s(state, now_s)
    share, least = _share(state, elapsed_s, left_s), min(cell_len(name), _LEAST_NAME)
    for layout in _LAYOUTS:
        bar = _bar(share, layout.bar, utf8)
        tail = _tail(state, layout, now_s, elapsed_s, left_s)
        room = width - cell_len(bar) - cell_len(tail)
        if room >= least:
            break
    line = _shortened(f"{bar}{_shortened(name, room, utf8)}{tail}", width, utf8)
    return line if utf8 else line.encode("ascii", "replace").decode()


def _name(state: ProgressState) -> str:
    progress = state.progress
    name = one_line(progress.stage) or ("reading" if state.bytes_total else "starting")
    return f"{progress.number}/{progress.stages} {name}" if progress.stages else name


def _left_s(state: ProgressState, now_s: float) -> float | None:
    """Seconds left, counted down since they were reported; of a read, from its average speed."""
    if state.bytes_total:
        speed = _speed(state, state.at_s)
        return (state.bytes_total - state.bytes_done) / speed - (now_s - state.at_s) if speed else None
    return None if state.progress.left_s is None else state.progress.left_s - (now_s - state.at_s)


def _speed(state: ProgressState, now_s: float) -> float | None:
    """Bytes per second; None if no time passed or nothing was read."""
    elapsed_s = now_s - (now_s if state.reading_since_s is None else state.reading_since_s)
    return state.bytes_done / elapsed_s if elapsed_s > 0 and state.bytes_done else None


def _share(state: ProgressState, elapsed_s: float, left_s: float | None) -> float | None:
    """The share of the work that is done: of bytes, of the time budget, or of the stages; None if unknown."""
    progress = state.progress
    if state.bytes_total:
        return state.bytes_done / state.bytes_total
    if left_s is not None:
        return elapsed_s / (elapsed_s + max(left_s, 0.0)) if elapsed_s > 0 else 0.0
    if progress.stages:
        return (progress.number - 1 + (progress.done or 0.0)) / progress.stages
    return progress.done


def _bar(share: float | None, width: int, utf8: bool) -> str:
    """A bar of `width` cells and its brackets; empty if the share is unknown or there is no room."""
    if share is None or not width:
        return ""
    full, empty, _ = _BLOCKS if utf8 else _ASCII
    filled = round(width * min(max(share, 0.0), 1.0))
    bar = full * filled + empty * (width - filled)
    return f"{bar}  " if utf8 else f"[{bar}] "


def _tail(state: ProgressState, layout: _Layout, now_s: float, elapsed_s: float, left_s: float | None) -> str:
    """What follows the name: bytes and speed, seconds elapsed, seconds left."""
    parts = []
    if layout.bytes and state.bytes_total:
        speed = units.count(_speed(state, now_s), "B/s")
        parts.append(f"{units.size(state.bytes_done)} of {units.size(state.bytes_total)}, {speed}")
    if layout.elapsed or left_s is None:
        parts.append(_duration(elapsed_s))
    if left_s is not None:
        bound = "about" if state.bytes_total else "at most"  # a budget is rarely spent
        parts.append(f"{bound} {_duration(left_s)} left" if left_s > 0 else "finishing")
    return f"  {', '.join(parts)}"


def _duration(seconds: float) -> str:
    """Whole seconds, rounded up, with minutes from 100 s on: `12 s`, `2 min 5 s`."""
    whole = math.ceil(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60} s"


def _shortened(text: str, width: int, utf8: bool) -> str:
    """The beginning of `text` that fits into `width` cells."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    end = (_BLOCKS if utf8 else _ASCII)[2]
    return (set_cell_size(text, max(width - len(end), 0)).rstrip() + end)[: max(width, 0)]


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def _columns(stream: TextIO) -> int:
    """The columns of the terminal now; it may be resized while the command runs."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _FALLBACK_COLUMNS
    except (OSError, ValueError):
        return _FALLBACK_COLUMNS
