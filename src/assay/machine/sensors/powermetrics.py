"""Power as estimated by Apple's `powermetrics`, which only root may run."""

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
    """The combined power of CPU, GPU and neural engine; empty on other systems."""
    sensors = ProbedSensors()
    if platform != "darwin":
        return sensors
    if not (os.geteuid() == 0 if root is None else root):
        sensors.add_missing("powermetrics", POWER, "chip", "permission denied: powermetrics requires root")
        return sensors
    run_command = run or _run
    sensors.try_out(Probe("powermetrics:combined", POWER, "chip", lambda: _power(run_command()), adds=True))
    return sensors


def _power(text: str) -> float:
    match = _COMBINED.search(text)
    if match is None:
        raise SensorError("powermetrics reported no combined power")
    return float(match[1]) / 1000


def _run() -> str:
    try:
        done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=_LONGEST_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SensorError(f"powermetrics failed: {type(error).__name__}") from error
    return done.stdout
