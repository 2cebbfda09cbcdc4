"""Apple's own estimate of power, through its `powermetrics`, which only root may run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable

from assay.machine.sensors.probe import POWER, Probe, ProbedSensors, SensorError

_COMMAND = ("powermetrics", "-n", "1", "-i", "100", "--samplers", "cpu_power")
_LONGEST_S = 5
_COMBINED = re.compile(r"^Combined Power[^:]*:\s*(\d+(?:\.\d+)?)\s*mW", re.MULTILINE)

RunCommand = Callable[[], str]


def find(run: RunCommand | None = None, *, platform: str = sys.platform, root: bool | None = None) -> ProbedSensors:
    """The power of processor, graphics and neural engine together; nothing on other systems."""
    found = ProbedSensors()
    if platform != "darwin":
        return found
    if not (os.geteuid() == 0 if root is None else root):
        found.absent("powermetrics", POWER, "chip", "permission denied: powermetrics is for root alone")
        return found
    ask = run or _run
    found.try_out(Probe("powermetrics:combined", POWER, "chip", lambda: _power(ask()), adds=True))
    return found


def _power(text: str) -> float:
    match = _COMBINED.search(text)
    if match is None:
        raise SensorError("powermetrics told no combined power")
    return float(match[1]) / 1000


def _run() -> str:
    try:
        done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=_LONGEST_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SensorError(f"powermetrics failed: {type(error).__name__}") from error
    return done.stdout
