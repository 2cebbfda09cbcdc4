"""Running somebody's program with captures switched on: its command, its surroundings, its signals."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from assay.errors import ReadError, UsageError

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_FROM_THE_KEYBOARD = frozenset({"SIGINT", "SIGQUIT"})
"""A terminal sends these to the program as well as to us."""


def command_of(words: Sequence[str]) -> list[str]:
    """The command that runs `words`: a script or `-m module` gets this Python, all else is run as it stands."""
    if not words:
        raise UsageError("no program is given: assay run -- python my_script.py")
    first = words[0]
    if first == "-m" or first.endswith((".py", ".pyc")):
        return [sys.executable, *words]
    if first in ("python", "python3") and shutil.which(first) is None:
        return [sys.executable, *words[1:]]
    return list(words)


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of `command`; 128 and the signal's number where one ended it. Signals to us go to it."""
    try:
        child = subprocess.Popen(list(command), env={**os.environ, **environment})
    except OSError as error:
        raise ReadError(f"cannot run {command[0]}: {error.strerror or error}") from error
    with _forwarding(child):
        code = child.wait()
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals that reach this process are the child's."""

    def forward(number: int, _: FrameType | None) -> None:
        if signal.Signals(number).name in _FROM_THE_KEYBOARD and _in_foreground():
            return
        child.send_signal(number)

    previous = {}
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        # A program started with nohup ignores hangups, and its child must too.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            previous[number] = signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether a terminal sends its keyboard's signals to this process's group, the child included."""
    if not hasattr(os, "ctermid"):
        return True
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
