"""Child processes for trials: a fresh interpreter, or a fork where the model cannot be sent to one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from assay.messages import one_line
from assay.trials.plan import TrialPlan

_START = "import sys; sys.path[:] = {path!r}; from assay.trials.worker import main; main()"
"""Not `python -m`: that puts the current directory first, where a user's file may hide a standard module."""

_SIGNALS = {each.value: each.name for each in signal.Signals}


class TrialChild(Protocol):
    """A running child process, which leads a process group."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""


def spawn(plan: TrialPlan, directory: Path, results: Path) -> TrialChild:
    """A fresh interpreter that runs the plan."""
    file = directory / f"{results.stem}.plan.json"
    file.write_bytes(msgspec.json.encode(plan))
    # A model that prints would do so in hundreds of passes.
    with log_of(results).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", _START.format(path=sys.path), str(file), str(results)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def log_of(results: Path) -> Path:
    """The file for what a child with these results prints."""
    return results.with_suffix(".log")


def fork(work: Callable[[], None], results: Path) -> TrialChild:
    """A copy of this process that does `work` and ends."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python warns that other threads are not copied: a child that waits for one is stopped at its limit.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return _Forked(pid)
    try:
        os.setsid()
        log = os.open(log_of(results), os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # GNU OpenMP's threads belong to the thread that forked and no longer exist; a new thread gets new ones.
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        os._exit(0)


def kill(child: TrialChild) -> None:
    """End the child with all processes it started, and wait for it."""
    for end in (getattr(os, "killpg", os.kill), os.kill):  # a fork may not lead its group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(child.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        if child.poll() is not None:
            return
    while child.poll() is None:
        threading.Event().wait(0.01)


def ending(code: int, results: Path) -> str:
    """How a child ended, from its exit code: `crashed with SIGSEGV`; with the last line it printed if it exited."""
    if code >= 0:
        last = log_of(results).read_text(errors="replace").split("\n")[-2:-1] if log_of(results).exists() else []
        return f"ended the process with exit code {code}" + "".join(f" ({one_line(line)})" for line in last if line)
    if -code == getattr(signal, "SIGKILL", None):
        return "was killed (SIGKILL), perhaps for lack of memory"
    return f"crashed with {_SIGNALS.get(-code, f'signal {-code}')}"


class _Forked:
    """A forked child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code
