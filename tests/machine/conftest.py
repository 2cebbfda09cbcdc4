"""Simulated time for everything that measures energy."""

from __future__ import annotations

from typing import Any

import pytest
from clocks import VirtualTime

from assay.machine import energy, ticks


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    """A clock that only moves in `virtual.sleep`, also for the thread that watches a counter."""
    virtual = VirtualTime()

    def watcher(counter: ticks.Energy, period_s: float, _: object = None, *sample: Any) -> ticks.TickWatcher:
        return ticks.TickWatcher(counter, period_s, virtual.perf_counter, *sample)

    monkeypatch.setattr(energy, "time", virtual.time)
    monkeypatch.setattr(energy, "TickWatcher", watcher)
    monkeypatch.setattr(ticks, "threading", virtual.threading)
    return virtual
