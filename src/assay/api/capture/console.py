"""What a program under capture is told on stderr: the tables of layers, warnings, and decisions on request."""

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

from assay.api.capture import environment
from assay.api.capture.tables import CPU, accelerator_lines, lines_of
from assay.views.tables import as_text, printable
from assay.views.text.layer_table import LayerLine, layer_table, layer_text

if TYPE_CHECKING:
    from assay.trace.write.plan import CapturedPass

_PAUSE_S = 0.5
"""A terminal gets a table of the latest pass this often at most."""
_STEPS = frozenset(step * 10**power for power in range(9) for step in (1, 2, 5))
"""A log gets the tables of these passes: few, however long the program runs."""


class Console:
    """Tells about captures on one stream; a stream that fails is left alone."""

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
        self._untold = 0
        self._passes: Counter[str] = Counter()
        self._sums: dict[str, dict[str, LayerLine]] = {}
        """The layers of each model by name, its passes added up."""
        self._lock = threading.Lock()

    def debug(self, line: str) -> None:
        """Explain a decision, where asked to."""
        if self._explain:
            self._write(f"assay: debug: {_plain(line)}\n")

    def warn(self, line: str) -> None:
        """Say a problem once; how often it came back is said at the end."""
        if line in self._warned:
            self._untold += 1
            return
        self._warned.add(line)
        self._write(f"assay: {_plain(line)}\n")

    def passed(self, captured: CapturedPass) -> None:
        """Add a pass to the sums, and show its table where it is time to."""
        if captured.path is not None:
            self.debug(f"{captured.facts.model_name}, pass {captured.facts.pass_number}: {captured.path}")
        if not self._tables:
            return
        with self._lock:
            name = captured.facts.model_name
            self._passes[name] += 1
            sums = self._sums.setdefault(name, {})
            for line in lines_of(captured):
                sums[line.name] = line.plus(sums.get(line.name))
            if self._due(self._passes[name]):
                measured = accelerator_lines(captured)
                where = captured.facts.device if measured else CPU
                self._write(self._table(_heading(captured, where), measured or lines_of(captured)))

    def table(self, captured: CapturedPass) -> str:
        """Every layer of a pass with its time on the CPU."""
        return as_text(layer_table(lines_of(captured)))

    def finish(self) -> None:
        """Show the sums of several passes; called as the program ends."""
        if self._untold:
            self._write(f"assay: the same happened {self._untold} more times\n")
            self._untold = 0
        for name, sums in self._sums.items():
            if self._passes[name] > 1:
                heading = f"{printable(name)}: {self._passes[name]} passes together, on the {CPU}"
                self._write(self._table(heading, list(sums.values())))
        self._passes.clear()
        self._sums.clear()

    def _due(self, number: int) -> bool:
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
        color = terminal and "NO_COLOR" not in os.environ
        return f"\n{heading}\n{layer_text(lines, width=width, color=color)}"

    def _is_terminal(self) -> bool:
        with contextlib.suppress(ValueError, AttributeError):  # closed, or none at all
            return (self._stream or sys.stderr).isatty()
        return False

    def _write(self, text: str) -> None:
        # Whatever became of the program's stderr, its model must go on.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream = self._stream or sys.stderr
            encoding = stream.encoding or "utf-8"
            stream.write(text.encode(encoding, "replace").decode(encoding))
            stream.flush()


@functools.cache
def console() -> Console:
    """The console of this process; it shows its sums as the program ends."""
    tables = environment.is_on(environment.TABLE) or environment.TABLE not in os.environ
    made = Console(tables=tables, explain=environment.is_on(environment.DEBUG))
    atexit.register(made.finish)
    return made


@functools.cache
def silent() -> Console:
    """A console for captures that were not asked to show tables: it warns, and explains where asked to."""
    return Console(tables=False, explain=environment.is_on(environment.DEBUG))


def _heading(captured: CapturedPass, where: str) -> str:
    facts = captured.facts
    what = "pass" if facts.covers == "forward" else "block"
    ended = f", ended by {facts.error}" if facts.error else ""
    return printable(
        f"{facts.model_name}, {what} {facts.pass_number}{ended}: time in each layer itself, on the {where}"
    )


def _plain(line: str) -> str:
    return printable(" ".join(line.split()))
