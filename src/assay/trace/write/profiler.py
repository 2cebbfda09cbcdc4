"""Starts torch's profiler cheaply and never twice in one process.

`torch.profiler.profile` imports the compiler at its first start (a second of CPU time); the lower-level autograd
profiler, which writes the same traces, does not.
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
"""Kineto reads its log level once per process, at the first start; below 6 it prints two lines per recording."""
_PATIENCE_S = 30.0
"""How long a user's profiler on another thread waits for Assay's to end: two at once crash the process."""
_ACCELERATORS = ("cuda", "xpu", "mtia")

watch = ForeignProfilers()
turn = threading.Lock()
"""Held during a capture; calls on other threads are not captured in the meantime."""


class ProfilerSession:
    """A recording by torch's profiler that starts on creation and ends with `stop`."""

    def __init__(self, plan: CapturePlan, *, all_threads: bool) -> None:
        self.lost: str | None = None
        """Why there is no trace, if the recording ended early."""
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
        """End the recording and store `facts` and `settings` in the trace."""
        if os.getpid() != self._process:
            self.lost = "this process was forked during the pass: the parent process writes the trace"
        if self.lost is not None:
            return
        torch.autograd._add_metadata_json(METADATA_KEY, f'"{facts}"')
        for name, value in settings.items():
            torch.autograd._add_metadata_json(name, str(int(value)))
        self.abandon()

    def export(self, path: str) -> None:
        """Write the trace to `path`; may be called only once."""
        self._profile.export_chrome_trace(path)

    def events(self) -> list[Any]:
        """The recorded events; none if the settings only allow them to be exported."""
        events: list[Any] = self._profile.kineto_results.events()
        return events

    def abandon(self) -> None:
        """End the recording if it is still running: a process that exits with a running recording crashes."""
        watch.give_way = _nothing
        atexit.unregister(self.abandon)
        if self._runs and os.getpid() == self._process:
            self._runs = False
            self._profile.__exit__(None, None, None)

    def _give_way(self) -> None:
        """End this recording before a user's profiler starts; if that is on another thread, make it wait instead."""
        if threading.get_ident() == self._thread:
            self.lost = "another profiler was started during this pass"
            self.abandon()
        elif turn.acquire(timeout=_PATIENCE_S):
            turn.release()


def release_turn() -> None:
    """Allow other captures; in a child forked during the capture the turn is already free."""
    if turn.locked():
        turn.release()


def settings_of(plan: CapturePlan) -> dict[str, bool]:
    """The profiler's switches, as torch itself stores them in a trace."""
    return {
        "record_shapes": plan.record_shapes,
        "profile_memory": plan.profile_memory,
        **{name: bool(plan.options.get(name)) for name in ("with_stack", "with_flops", "with_modules")},
    }


def prime(*, stacks: bool = False) -> None:
    """Initialise Kineto on the main thread; on any other thread it prints an error.

    With `stacks`, call this before `nn.Module.__call__` is replaced: torch remembers the first code it sees there and
    could not recognise module calls afterwards.
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
    """Torch's experimental settings, as far as this version of torch supports them."""
    config = torch._C._profiler._ExperimentalConfig
    settings = {"trace_only": not with_stack, "profile_all_threads": all_threads}
    signature = config.__init__.__doc__ or ""
    return config(**{name: value for name, value in settings.items() if value and f"{name}:" in signature})


def _accelerator(plan: CapturePlan) -> str | None:
    """The kind of accelerator to record; None for only the CPU."""
    recorded = torch.autograd._supported_activities()
    requested = plan.options.get("activities")
    if requested is not None:
        recorded = recorded & set(requested)
    for name in _ACCELERATORS:
        activity = getattr(torch.profiler.ProfilerActivity, name.upper(), None)
        if activity in recorded and getattr(torch, name).is_available():
            return name
    return None


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence Kineto through its environment variable, unless the user has set that."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = _SILENT
    try:
        yield
    finally:
        os.environ.pop(_LOG_LEVEL, None)


def _forget_parent() -> None:
    """Reset the turn in a forked child, which has neither the parent's recording nor the thread that held it."""
    global turn
    turn = threading.Lock()
    watch.give_way = _nothing


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
