"""NVIDIA boards: utilisation, memory, temperature, power, clocks and throttle reasons."""

from __future__ import annotations

from collections.abc import Callable

from assay.document.machine import Series
from assay.machine.gauges.gauge import Gauge, Readings
from assay.machine.sensors.nvml import NvmlBoard
from assay.machine.sensors.probe import SensorError

BoardReader = Callable[[NvmlBoard], float]

METRICS: tuple[tuple[str, str, BoardReader], ...] = (
    ("utilisation", "share", NvmlBoard.utilisation),
    ("memory", "B", NvmlBoard.memory_used),
    ("temperature", "°C", NvmlBoard.temperature_c),
    ("power", "W", NvmlBoard.power_w),
    ("clock.sm", "MHz", lambda board: board.clock_mhz("SM")),
    ("clock.memory", "MHz", lambda board: board.clock_mhz("MEM")),
    ("throttle", "bits", NvmlBoard.throttle_bits),
)
"""Name, unit and reader of each sampled metric. The energy counter is not sampled: reading it takes milliseconds."""


class BoardGauge(Gauge):
    """All `METRICS` of one board; a metric that fails once is not read again, and its values are None."""

    def __init__(self, board: NvmlBoard) -> None:
        self._board = board
        self._lost: set[str] = set()
        self.series = [Series(f"gpu.{board.index}.{name}", unit, "board") for name, unit, _ in METRICS]

    def read(self) -> Readings:
        """One value per metric."""
        return [self._value(name, reader) for name, _, reader in METRICS]

    def _value(self, name: str, reader: BoardReader) -> float | None:
        if name in self._lost:
            return None
        try:
            return reader(self._board)
        except SensorError as error:
            self._lost.add(name)
            self.problems = (*self.problems, f"gpu.{self._board.index}.{name}: {error}")
            return None
