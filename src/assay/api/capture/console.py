"""Output on stderr while a program is captured: layer tables, warnings and debug messages."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from assay import host
from assay.api.capture import environment
from assay.api.capture.tables import CPU, accelerator_lines, layer_lines
from assay.messages import plural
from assay.views.layout import as_text
from assay.views.tables import printable
from assay.views.text.layer_table import LayerLine, layer_table, layer_text

if TYPE_CHECKING:
    from assay.trace.write.plan import CapturedPass

_PAUSE_S = 0.5
"""Minimum seconds between two tables on a terminal."""
_STEPS = frozenset(step * 10**power for power in range(9) for step in (1, 2, 5))
"""The numbers of the passes whose table is written to a log file, so that long runs do not flood it."""


class Console:
    """Writes messages and tables about captures to one stream, ignoring errors of the stream."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        tables: bool = True,
        explain: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._tables, self._explain, self._clock = tables, explain, clock
        self._shown_at: float | None = None
        self._warned: set[str] = set()
        self._suppressed = 0
        self._passes: Counter[str] = Counter()
        self._sums: dict[str, dict[str, LayerLine]] = {}
        """By model name and layer name: the layer's times and calls, summed over all passes."""
        self._lock = threading.Lock()

    def debug(self, line: str) -> None:
        """Write a debug message, if debug output is enabled."""
        if self._explain:
            self._write(f"assay: debug: {_plain(line)}\n")

    def warn(self, line: str) -> None:
        """Write a warning the first time it occurs; `finish` reports how often warnings were repeated."""
        if line in self._warned:
            self._suppressed += 1
            return
        self._warned.add(line)
        self._write(f"assay: {_plain(line)}\n")

    def passed(self, captured: CapturedPass) -> None:
        """Add a pass to the sums, and write its table if one is due."""
        if captured.path is not None:
            self.debug(f"{captured.facts.model_name}, pass {captured.facts.pass_number}: {captured.path}")
        if not self._tables:
            return
        with self._lock:
            name = captured.facts.model_name
            self._passes[name] += 1
            sums = self._sums.setdefault(name, {})
            for line in layer_lines(captured):
                sums[line.name] = line.plus(sums.get(line.name))
            if self._is_due(self._passes[name]):
                on_device = accelerator_lines(captured)
                device = captured.facts.device if on_device else CPU
                self._write(self._table(_heading(captured, device), on_device or layer_lines(captured)))

    def table(self, captured: CapturedPass) -> str:
        """The table of a pass: every layer with its self time on the CPU."""
        return as_text(layer_table(layer_lines(captured)))

    def finish(self) -> None:
        """Write the tables summed over all passes of each model; called at exit."""
        if self._suppressed:
            self._write(f"assay: {plural(self._suppressed, 'repeated warning')} not shown\n")
            self._suppressed = 0
        for name, sums in self._sums.items():
            if self._passes[name] > 1:
                heading = f"{printable(name)}: self time per layer, sum of {self._passes[name]} passes, on the {CPU}"
                self._write(self._table(heading, list(sums.values())))
        self._passes.clear()
        self._sums.clear()

    def _is_due(self, number: int) -> bool:
        """Whether to write the table of this pass: at most every half second on a terminal, else 1, 2, 5, 10, …"""
        if not self._is_terminal():
            return number in _STEPS
        now = self._clock()
        if self._shown_at is not None and now - self._shown_at < _PAUSE_S:
            return False
        self._shown_at = now
        return True

    def _table(self, heading: str, lines: list[LayerLine]) -> str:
        terminal = self._is_terminal()
        width = shutil.get_terminal_size().columns if terminal else None
        text = layer_text(lines, width=width, color=host.uses_color(is_terminal=terminal))
        return f"\n{heading}\n{text}"

    def _is_terminal(self) -> bool:
        with contextlib.suppress(ValueError, AttributeError):  # stderr may be closed or None
            return (self._stream or sys.stderr).isatty()
        return False

    def _write(self, text: str) -> None:
        # A broken stderr must not stop the user's program.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream = self._stream or sys.stderr
            encoding = stream.encoding or "utf-8"
            stream.write(text.encode(encoding, "replace").decode(encoding))
            stream.flush()


@functools.cache
def console() -> Console:
    """The console of this process; it writes the summed tables at exit."""
    tables = environment.is_on(environment.TABLE) or environment.TABLE not in os.environ
    shared = Console(tables=tables, explain=environment.is_on(environment.DEBUG))
    atexit.register(shared.finish)
    return shared


@functools.cache
def silent() -> Console:
    """A console without tables: it writes only warnings, and debug messages if enabled."""
    return Console(tables=False, explain=environment.is_on(environment.DEBUG))


def _heading(captured: CapturedPass, device: str) -> str:
    facts = captured.facts
    unit = "pass" if facts.covers == "forward" else "block"
    error = f", failed with {facts.error}" if facts.error else ""
    return printable(f"{facts.model_name}, {unit} {facts.pass_number}{error}: self time per layer, on the {device}")


def _plain(line: str) -> str:
    return printable(" ".join(line.split()))
