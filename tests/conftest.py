"""Shared by all tests: helper modules on the import path, and one thread for torch."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from assay.machine.waiting import Waited

sys.path.insert(0, str(Path(__file__).parent))

# Read by torch when a test imports it; importing torch here would slow down all tests that do not need it.
os.environ["OMP_NUM_THREADS"] = "1"


# How long an example takes depends on what else the machine does.
settings.register_profile("any-load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-load")


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else runs beside the tests, threads never wait for a processor: times are never withheld."""
    monkeypatch.setattr("assay.machine.waiting.ProcessorWait.read", lambda self: Waited(0, 0))


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed does not depend on the terminal that runs the tests; pytest-xdist sets COLUMNS."""
    monkeypatch.setattr("assay.cli.progress.PRINTED_AFTER_S", math.inf)  # a slow machine prints no more
    for name in ("TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "LC_ALL", "LC_CTYPE", "LANG", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(1)
