"""Running a user's program with captures enabled: its command line, environment and signals."""

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
"""The terminal sends these to the child process, too, so they are not forwarded."""


def child_command(words: Sequence[str]) -> list[str]:
    """The command for `words`: this Python runs a script or `-m module`, anything else is run unchanged."""
    if not words:
        raise UsageError("no program was given; for example: assay run -- python my_script.py")
    first = words[0]
    if first == "-m" or first.endswith((".py", ".pyc")):
        return [sys.executable, *words]
    if first in ("python", "python3") and shutil.which(first) is None:
        return [sys.executable, *words[1:]]
    return list(words)


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `command`, forwarding signals to it, and return its exit code: 128 + N if signal N ended it."""
    try:
        child = subprocess.Popen(list(command), env={**os.environ, **environment})
    except OSError as error:
        raise ReadError(f"cannot run {command[0]}: {error.strerror or error}") from error
    with _forwarding(child):
        code = child.wait()
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward the signals that this process receives to the child."""

    def forward(number: int, _: FrameType | None) -> None:
        if signal.Signals(number).name in _FROM_THE_KEYBOARD and _in_foreground():
            return
        child.send_signal(number)

    previous = {}
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        # Under nohup this process ignores hangups, and so must the child.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            previous[number] = signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether this process group, which includes the child, receives keyboard signals from the terminal."""
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
