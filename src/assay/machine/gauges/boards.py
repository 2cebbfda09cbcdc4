"""NVIDIA boards: how busy, how full, how hot, how fast, how much power, and why not faster."""

from __future__ import annotations

from collections.abc import Callable

from assay.document.machine import Series
from assay.machine.gauges.gauge import Gauge, Readings
from assay.machine.sensors.nvml import NvmlBoard
from assay.machine.sensors.probe import SensorError

Question = Callable[[NvmlBoard], float]

QUESTIONS: tuple[tuple[str, str, Question], ...] = (
    ("utilisation", "share", NvmlBoard.utilisation),
    ("memory", "B", NvmlBoard.memory_used),
    ("temperature", "°C", NvmlBoard.temperature_c),
    ("power", "W", NvmlBoard.power_w),
    ("clock.sm", "MHz", lambda board: board.clock_mhz("SM")),
    ("clock.memory", "MHz", lambda board: board.clock_mhz("MEM")),
    ("throttle", "bits", NvmlBoard.throttle_bits),
)
"""What is asked of a board. The energy counter is not: a read of it takes milliseconds."""


class BoardGauge(Gauge):
    """Everything above of one board; a question that fails is not asked again and its values are unknown."""

    def __init__(self, board: NvmlBoard) -> None:
        self._board = board
        self._lost: set[str] = set()
        self.series = [Series(f"gpu.{board.index}.{name}", unit, "board") for name, unit, _ in QUESTIONS]

    def read(self) -> Readings:
        """One value a question."""
        return [self._asked(name, question) for name, _, question in QUESTIONS]

    def _asked(self, name: str, question: Question) -> float | None:
        if name in self._lost:
            return None
        try:
            return question(self._board)
        except SensorError as error:
            self._lost.add(name)
            self.problems = (*self.problems, f"gpu.{self._board.index}.{name}: {error}")
            return None
