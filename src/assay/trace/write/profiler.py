"""Torch's profiler, started lightly and never twice in one process.

`torch.profiler.profile` imports the compiler at its first start (a second of CPU time); the profiler below it,
which writes the same traces, does not.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import profiler as autograd_profiler

from assay.document.trace_labels import METADATA_KEY
from assay.trace.write.foreign import ForeignProfilers
from assay.trace.write.plan import CapturePlan

_LOG_LEVEL = "KINETO_LOG_LEVEL"
_SILENT = "6"
"""Kineto reads its level once, at the first start in a process; below 6 it prints two lines a recording."""
_PATIENCE_S = 30.0
"""How long a profiler on another thread is made to wait for ours: two at once crash the process."""
_ACCELERATORS = ("cuda", "xpu", "mtia")

watch = ForeignProfilers()
turn = threading.Lock()
"""Held by whoever captures; another thread passes through meanwhile."""


class ProfilerSession:
    """A recording on this thread, from its making to `stop`."""

    def __init__(self, plan: CapturePlan, *, all_threads: bool) -> None:
        self.lost: str | None = None
        """Why there is no trace, where another profiler took over."""
        self.device = _accelerator(plan)
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._runs = False
        self._profile = autograd_profiler.profile(**_arguments(plan, self.device, all_threads))
        watch.give_way = self._give_way
        with watch.ours(self._profile), _quietly():
            self._profile.__enter__()
        self._runs = True
        atexit.register(self.abandon)

    def stop(self, facts: str, settings: dict[str, bool]) -> None:
        """End it; `facts` go into the trace."""
        if os.getpid() != self._process:
            self.lost = "this process was forked inside the pass: its parent has the trace"
        if self.lost is not None:
            return
        torch.autograd._add_metadata_json(METADATA_KEY, f'"{facts}"')
        for name, value in settings.items():
            torch.autograd._add_metadata_json(name, str(int(value)))
        self.abandon()

    def export(self, path: str) -> None:
        """Write the trace; only once."""
        self._profile.export_chrome_trace(path)

    def abandon(self) -> None:
        """End it where it still runs: a process that ends with a running recording crashes."""
        watch.give_way = _nothing
        atexit.unregister(self.abandon)
        if self._runs and os.getpid() == self._process:
            self._runs = False
            self._profile.__exit__(None, None, None)

    def _give_way(self) -> None:
        """Another profiler is about to start: end ours first, or make it wait where it is on another thread."""
        if threading.get_ident() == self._thread:
            self.lost = "another profiler was started inside this pass"
            self.abandon()
        elif turn.acquire(timeout=_PATIENCE_S):
            turn.release()


def release_turn() -> None:
    """Let others capture; a child forked meanwhile never had the turn."""
    if turn.locked():
        turn.release()


def settings_of(plan: CapturePlan) -> dict[str, bool]:
    """The switches as torch itself writes them into a trace."""
    return {
        "record_shapes": plan.record_shapes,
        "profile_memory": plan.profile_memory,
        **{name: bool(plan.options.get(name)) for name in ("with_stack", "with_flops", "with_modules")},
    }


def prime(*, stacks: bool = False) -> None:
    """Have Kineto set itself up on the main thread: on another it prints an error.

    With `stacks` before `nn.Module.__call__` is replaced: torch keeps the code it first sees there for good, and
    would not know a module's call by its plain code afterwards.
    """
    if threading.current_thread() is not threading.main_thread() or watch.busy():
        return
    profile = autograd_profiler.profile(use_kineto=True, with_stack=stacks)
    with watch.ours(profile), _quietly():
        profile.__enter__()
        profile.__exit__(None, None, None)


def _nothing() -> None:
    return


def _arguments(plan: CapturePlan, device: str | None, all_threads: bool) -> dict[str, Any]:
    options = dict(plan.options)
    activities = options.pop("activities", None)
    options.setdefault("experimental_config", _experimental(all_threads, bool(options.get("with_stack"))))
    return {
        "use_kineto": True,
        "use_device": device,
        "use_cpu": activities is None or torch.profiler.ProfilerActivity.CPU in activities,
        "record_shapes": plan.record_shapes,
        "profile_memory": plan.profile_memory,
        **options,
    }


def _experimental(all_threads: bool, with_stack: bool) -> Any:
    """Torch's experimental settings, of those that this version has."""
    config = torch._C._profiler._ExperimentalConfig
    wanted = {"trace_only": not with_stack, "profile_all_threads": all_threads}
    known = config.__init__.__doc__ or ""
    return config(**{name: value for name, value in wanted.items() if value and f"{name}:" in known})


def _accelerator(plan: CapturePlan) -> str | None:
    """The kind of device whose work is recorded too."""
    recorded = torch.autograd._supported_activities()
    wanted = plan.options.get("activities")
    if wanted is not None:
        recorded = recorded & set(wanted)
    for name in _ACCELERATORS:
        activity = getattr(torch.profiler.ProfilerActivity, name.upper(), None)
        if activity in recorded and getattr(torch, name).is_available():
            return name
    return None


@contextmanager
def _quietly() -> Iterator[None]:
    """The environment says that Kineto shall be silent, unless the user said something else."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = _SILENT
    try:
        yield
    finally:
        os.environ.pop(_LOG_LEVEL, None)


def _forget_parent() -> None:
    """A forked child has neither its parent's recording nor the thread that held the turn."""
    global turn
    turn = threading.Lock()
    watch.give_way = _nothing


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
