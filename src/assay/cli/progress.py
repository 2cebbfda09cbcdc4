"""One live line on stderr that shows how far a command has come; nothing of it stays on the screen.

It is not drawn by `rich.live`, whose redraws take 0.3 ms of Python each, against 0.01 ms here: they would disturb the
passes that are being timed. Rich also hides the cursor, which a killed process does not bring back.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from threading import RLock
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TextIO, cast

from assay import units
from assay.api.options import Progress
from assay.messages import one_line, plural
from assay.views.cells import cell_len, set_cell_size
from assay.views.terminal import columns, is_utf8, knows_escapes

if TYPE_CHECKING:
    from assay.cli.stderr import Messages

REDRAW_S = 0.5
"""Also the time before the line first appears: a command that ends sooner shows none."""
PRINTED_AFTER_S = 1.0
"""Where no line can be drawn, a stage that lasts longer is printed."""
_CLEAR_REST = "\x1b[K"
_LEAST_NAME = 32
"""A longer stage name is shortened before anything else is left out."""
_SLOW_IMPORTS = ("torch", "transformers", "ray")
"""Packages whose import takes seconds, and is then shown instead of the stage."""
_BLOCKS, _ASCII = ("█", "░", "…"), ("#", "-", "...")


class ProgressState(NamedTuple):
    """What the line shows, and when it was reported."""

    progress: Progress
    at_s: float
    began_s: float = 0.0
    """When the stage began."""
    first_items: int = 0
    """The units that were done when they were first reported."""
    first_at_s: float | None = None
    """When that was; None if nothing is counted."""


class ProgressLine:
    """Shows what a command is doing until it is closed: a line that redraws itself if stderr is a terminal.

    On a pipe or with TERM=dumb, it prints each stage that lasts longer than a second instead. With -v, all stages are
    printed as they begin; with -q, nothing is. It is called with a `Progress`; `step` and `read` serve callbacks that
    receive only a text or only bytes. While the line is shown, everything else that Python code prints on stdout and
    stderr appears above it.
    """

    def __init__(self, messages: Messages) -> None:
        self._stream, self._messages = sys.stderr, messages
        self._is_drawing = self._stream is not None and self._stream.isatty() and knows_escapes()
        self._start_s = time.perf_counter()
        self._state = ProgressState(Progress(""), self._start_s, self._start_s)
        self._ended, self._undo, self._lock = threading.Event(), contextlib.ExitStack(), RLock()
        self._is_drawn = self._is_mid_line = False
        self._printed = ""

    def __call__(self, progress: Progress) -> None:
        """Show `progress` from the next redraw on."""
        now, before = time.perf_counter(), self._state
        is_same = (progress.number, progress.stage) == (before.progress.number, before.progress.stage)
        began, items, at = (before.began_s, before.first_items, before.first_at_s) if is_same else (now, 0, None)
        if at is None and progress.unit:
            items, at = progress.items, now
        self._state = ProgressState(progress, now, began, items, at)
        if not is_same and self._messages.verbose:
            self._printed = progress.stage
            self._messages.detail(progress.stage)

    def step(self, text: str) -> None:
        """Show a stage whose number is unknown."""
        self(Progress(text))

    def read(self, done: int, total: int) -> None:
        """Show how many bytes the current stage has read."""
        self(self._state.progress._replace(items=done, total=total, unit="B"))

    def __enter__(self) -> ProgressLine:
        if self._messages.quiet or self._stream is None:
            return self
        if self._is_drawing:
            self._undo.enter_context(contextlib.redirect_stderr(cast(TextIO, _AboveLine(self._stream, self))))
            self._undo.enter_context(contextlib.redirect_stdout(cast(TextIO, _AboveLine(sys.stdout, self))))
            self._undo.enter_context(_cleared_on_kill(self._clear))
        thread = threading.Thread(target=self._follow, name="assay-progress", daemon=True)
        thread.start()
        self._undo.callback(self._clear)
        self._undo.callback(thread.join)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the line for good: before another program or screen uses the terminal, or at the end."""
        self._ended.set()
        self._undo.close()

    @contextlib.contextmanager
    def cleared(self, text: str | bytes) -> Iterator[None]:
        """Remove the line while `text` is written; it returns below the last complete line."""
        with self._lock:
            self._clear()
            yield
            self._is_mid_line = text[-1:] not in ("\n", b"\n") if text else self._is_mid_line

    def _follow(self) -> None:
        while not self._ended.wait(REDRAW_S):
            with self._lock:
                if not self._is_drawing:
                    self._print()
                elif not self._is_mid_line:
                    self._draw()

    def _print(self) -> None:
        """Print the stage if it lasts long and was not printed yet."""
        state = self._state
        stage = state.progress.stage
        if stage not in ("", self._printed) and time.perf_counter() - state.began_s >= PRINTED_AFTER_S:
            self._printed = stage
            self._messages.note(stage, self._stream)  # the model may have replaced sys.stderr for a while

    def _draw(self) -> None:
        now, width = time.perf_counter(), columns(self._stream) - 1  # a full last column would wrap
        state, package = self._state, _importing()
        if package:
            state = ProgressState(Progress(f"importing {package}"), now)
        self._put(line_text(state, now, now - self._start_s, width, utf8=is_utf8(self._stream)))
        self._is_drawn = True

    def _clear(self) -> None:
        if self._is_drawn:
            self._put("")
            self._is_drawn = False

    def _put(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that was closed must not end the command
            self._stream.write(f"\r{line}{_CLEAR_REST}")
            self._stream.flush()


def _importing() -> str:
    """The package that is being imported, if it is one that takes long; else an empty string."""
    specs = {name: getattr(sys.modules.get(name), "__spec__", None) for name in _SLOW_IMPORTS}
    return next((name for name, spec in specs.items() if getattr(spec, "_initializing", False)), "")


@contextlib.contextmanager
def _cleared_on_kill(clear: Callable[[], None]) -> Iterator[None]:
    """Clear the line before a signal ends the process, unless somebody else handles the signal."""
    process = os.getpid()

    def end(number: int, _: object) -> None:
        if os.getpid() == process:  # a forked child has no line
            clear()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    kinds = [kind for kind in (signal.SIGTERM, getattr(signal, "SIGHUP", None)) if kind is not None]
    handled: list[int] = []
    with contextlib.suppress(ValueError):  # not the main thread
        for kind in kinds:
            if signal.getsignal(kind) == signal.SIG_DFL:
                signal.signal(kind, end)
                handled.append(kind)
    try:
        yield
    finally:
        for kind in handled:
            signal.signal(kind, signal.SIG_DFL)


class _AboveLine:
    """A stream like `stream`, whose output appears above the progress line."""

    def __init__(self, stream: IO[Any], line: ProgressLine) -> None:
        self._stream, self._line, self._process = stream, line, os.getpid()

    def write(self, text: str | bytes) -> int:
        """Write `text` above the line; a forked child, which has no line and may not get its lock, just writes."""
        if os.getpid() != self._process:
            return self._stream.write(text)
        with self._line.cleared(text):
            written = self._stream.write(text)
            self._stream.flush()  # before the line is drawn again
            return written

    def writelines(self, lines: list[str]) -> None:
        """Write all `lines` above the line."""
        self.write("".join(lines))

    @property
    def buffer(self) -> _AboveLine:
        """The stream of bytes below this one, whose output appears above the line, too."""
        return _AboveLine(cast(TextIO, self._stream).buffer, self._line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class _Layout(NamedTuple):
    """What a line has room for."""

    bar: int
    counts: bool = True
    elapsed: bool = True


_LAYOUTS = (
    _Layout(24),
    _Layout(10),
    _Layout(10, elapsed=False),
    _Layout(10, counts=False),
    _Layout(8, counts=False, elapsed=False),
    _Layout(0, counts=False, elapsed=False),
)
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
    name, left_s = _name(state), _left_s(state, now_s)
    share, least = _share(state, elapsed_s, left_s), min(cell_len(name), _LEAST_NAME)
    for layout in _LAYOUTS:
        bar = _bar(share, layout.bar, utf8)
        tail = _tail(state, layout, elapsed_s, left_s)
        room = width - len(bar) - len(tail)  # their characters take one cell each
        if room >= least:
            break
    line = _shortened(f"{bar}{_shortened(name, room, utf8)}{tail}", width, utf8)
    return line if utf8 else line.encode("ascii", "replace").decode()


def _name(state: ProgressState) -> str:
    progress = state.progress
    name = one_line(progress.stage) or ("reading" if progress.unit else "starting")
    return f"{progress.number}/{progress.stages} {name}" if progress.stages else name


def _left_s(state: ProgressState, now_s: float) -> float | None:
    """Seconds left, counted down since they were reported: of the budget, or from the average rate."""
    progress, since_s = state.progress, now_s - state.at_s
    if progress.left_s is not None:
        return progress.left_s - since_s
    rate = _rate(state)
    if rate is None or progress.total is None:
        return None
    left_s = (progress.total - progress.items) / rate - since_s
    return None if left_s <= 0 and progress.items < progress.total else left_s  # it became slower


def _rate(state: ProgressState) -> float | None:
    """Units per second; None if no time passed or nothing was done since the first report."""
    if state.first_at_s is None:
        return None
    elapsed_s, done = state.at_s - state.first_at_s, state.progress.items - state.first_items
    return done / elapsed_s if elapsed_s > 0 and done > 0 else None


def _share(state: ProgressState, elapsed_s: float, left_s: float | None) -> float | None:
    """The share of the work that is done: of the stages, of the units or of the time budget; None if unknown.

    A budget is rarely spent, so that its share says little about the end.
    """
    progress = state.progress
    done = progress.items / progress.total if progress.total else None
    if progress.stages:
        return (progress.number - 1 + (done or 0.0)) / progress.stages
    if done is None and progress.left_s is not None and left_s is not None:
        return elapsed_s / (elapsed_s + max(left_s, 0.0)) if elapsed_s > 0 else 0.0
    return done


def _bar(share: float | None, width: int, utf8: bool) -> str:
    """A bar of `width` cells and its brackets; empty if the share is unknown or there is no room."""
    if share is None or not width:
        return ""
    full, empty, _ = _BLOCKS if utf8 else _ASCII
    filled = round(width * min(max(share, 0.0), 1.0))
    bar = full * filled + empty * (width - filled)
    return f"{bar}  " if utf8 else f"[{bar}] "


def _tail(state: ProgressState, layout: _Layout, elapsed_s: float, left_s: float | None) -> str:
    """What follows the name: units and their rate, seconds elapsed, seconds left."""
    parts = [*_counts(state)] if layout.counts else []
    if layout.elapsed or left_s is None:
        parts.append(_duration(elapsed_s))
    if left_s is not None:
        bound = "about" if state.progress.left_s is None else "at most"  # a budget is rarely spent
        parts.append(f"{bound} {_duration(left_s)} left" if left_s > 0 else "finishing")
    return f"  {', '.join(parts)}"


def _counts(state: ProgressState) -> Iterator[str]:
    """The units done, of how many, and their rate as soon as it is known: `1 GiB of 4 GiB`, `537 MB/s`."""
    _, _, _, _, items, total, unit = state.progress
    if not unit:
        return
    if unit == "B":
        yield units.size(items) if total is None else f"{units.size(items)} of {units.size(total)}"
    else:
        yield plural(items, unit) if total is None else f"{items:,} of {plural(total, unit)}"
    rate = _rate(state)
    if rate is not None:
        yield units.count(rate, "B/s") if unit == "B" else f"{units.count(rate)}/s"


def _duration(seconds: float) -> str:
    """Whole seconds, rounded up, with minutes from 100 s on: `12 s`, `2 min 5 s`."""
    whole = math.ceil(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60} s"


def _shortened(text: str, width: int, utf8: bool) -> str:
    """The beginning of `text` that fits into `width` cells."""
    if cell_len(text) <= width:
        return text
    end = (_BLOCKS if utf8 else _ASCII)[2]
    return (set_cell_size(text, max(width - len(end), 0)).rstrip() + end)[: max(width, 0)]
